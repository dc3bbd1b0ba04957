"""The check-up as Markdown and JSON."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ttm_jax.report.checkup.flips import Flip
from ttm_jax.report.checkup.row import Row
from ttm_jax.report.checkup.search import Attempt

_TITLES = {"raw": "raw", "simple_match": "SimpleMatch"}
_MEASURES = {"raw": "raw", "simple_match": "SimpleMatch", "global_match": "assignment"}
_MOST_FLIPS = 20  # on the page; the JSON has all


def totals(rows: Sequence[Row]) -> dict[str, int]:
    """How many counts there are, and how they compare."""
    published = sum(len(row.published) for row in rows)
    equal, off = sum(row.equal for row in rows), sum(len(row.off) for row in rows)
    return {
        "published": published,
        "equal": equal,
        "off": off,
        "not_scored": published - equal - off,
    }


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    return {"counts": totals(rows), "rows": [row.as_json() for row in rows]}


def headline(rows: Sequence[Row]) -> str:
    """42 published counts: 40 equal, 2 off, 0 not scored."""
    n = totals(rows)
    return (
        f"{n['published']} published counts: {n['equal']} equal, {n['off']} off, "
        f"{n['not_scored']} not scored"
    )


def markdown(rows: Sequence[Row]) -> str:
    """The whole page."""
    lines = ["# Check-up of the published counts", "", headline(rows) + ".", ""]
    lines += _table(
        ("dataset", "model", "table", "number", "paper", "here", "verdict"),
        [cells for row in rows for cells in _numbers(row)],
    )
    lines += _common_reasons(rows)
    for row in rows:
        if row.off:
            lines += _details(row)
    missing = [f"- {row.dataset}, {row.model}: {text}" for row in rows for text in row.missing]
    if missing:
        lines += ["", "## Not scored", "", *missing]
    notes = [f"- {row.dataset}, {row.model}: {text}" for row in rows for text in row.notes]
    if notes:
        lines += ["", "## Notes", "", *notes]
    return "\n".join(lines) + "\n"


def reason(row: Row) -> str:
    """Why the counts of a row are off, in one line."""
    assert row.search is not None  # only rows that are off have reasons
    if row.search.found:
        return f"explained by {' or by '.join(attempt.name for attempt in row.search.found)}"
    return "no choice that is known to move numbers explains it"


def _numbers(row: Row) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for published in row.published:
        here = row.here.get(published.measure)
        found.append(
            (
                row.dataset,
                row.model,
                published.table,
                _TITLES[published.number],
                f"{published.count}/{published.of}",
                "-" if here is None else str(here),
                published.verdict(here),
            )
        )
    return found


def _common_reasons(rows: Sequence[Row]) -> list[str]:
    """A reason for several rows is more than a coincidence."""
    off = [row for row in rows if row.off and row.search is not None]
    if not off:
        return []
    named = Counter(a.name for row in off for a in (row.search.found if row.search else ()))
    lines = ["", "## Reasons", ""]
    lines += [
        f"- {name} explains {count} of {len(off)} rows that are off"
        for name, count in named.most_common()
    ]
    unexplained = sum(not row.search.found for row in off if row.search is not None)
    if unexplained:
        lines.append(f"- {unexplained} of {len(off)} rows that are off are not explained")
    return lines


def _details(row: Row) -> list[str]:
    assert row.search is not None
    measures = tuple(dict.fromkeys(published.measure for published in row.published))
    lines = ["", f"## {row.dataset}, {row.model}", "", f"{reason(row).capitalize()}.", ""]
    wanted = {p.measure: p.count for p in row.published}
    tried = [("published", *(str(wanted[m]) for m in measures), "")]
    tried.append(("here", *(str(row.here[m]) for m in measures), ""))
    tried += [_attempt(attempt, measures, wanted) for attempt in row.search.attempts]
    lines += _table(("choice", *(_MEASURES[m] for m in measures), ""), tried)
    if row.search.untried:
        lines += ["", f"{row.search.untried.capitalize()}."]
    for name, flips in row.flips.items():
        lines += ["", f"Groups that flip with {name}:", ""]
        lines += _table(
            ("number", "group", "here", "margin", "then", "margin"),
            [_flip(flip) for flip in flips[:_MOST_FLIPS]],
        )
        if len(flips) > _MOST_FLIPS:
            lines.append(f"\n{len(flips) - _MOST_FLIPS} more are in check.json.")
    return lines


def _attempt(attempt: Attempt, measures: Sequence[str], wanted: dict[Any, int]) -> tuple[str, ...]:
    if attempt.counts is None:
        return (attempt.name, *("-" for _ in measures), attempt.note)
    said = "gives the published counts" if attempt.gives(wanted) else attempt.note
    return (attempt.name, *(str(attempt.counts[m]) for m in measures), said)


def _flip(flip: Flip) -> tuple[str, ...]:
    before, after = ("right", "wrong") if flip.right_here else ("wrong", "right")
    here, there = f"{flip.margin_here:+.4g}", f"{flip.margin_there:+.4g}"
    return _MEASURES[flip.measure], flip.unit, before, here, after, there


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [_line(headings), f"|{'---|' * len(headings)}"]
    return lines + [_line(row) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
