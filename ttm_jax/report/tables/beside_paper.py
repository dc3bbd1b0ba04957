"""Rows beside the paper's, with verdicts: on the screen, as Markdown and as CSV."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from ttm_jax.plain_text import rich_lines, rich_text
from ttm_jax.report.tables.paper_layout import HEADINGS as LAYOUT
from ttm_jax.report.tables.paper_layout import layout_lines, name_of
from ttm_jax.report.tables.verdict import Comparison, Gain, Number, Verdict

TITLES = {"raw": "raw", "simple_match": "SimpleMatch", "ttm": "TTM"}
HEADINGS = ("dataset", "model", "number", "paper", "here", "verdict")
_CSV = (
    "dataset", "model", "label", "seeds", "number", "paper", "paper_count", "paper_std",
    "here", "count", "of", "std", "difference", "verdict", "note",
    "delta", "relative_gain", "error_reduction",
    "paper_delta", "paper_relative_gain", "paper_error_reduction",
)  # fmt: skip
_WIDE = 128


def show(number: Number | None) -> str:
    """22.96 (31/135), or 89.44 ± 0.96."""
    if number is None:
        return "-"
    if number.count is not None:
        return f"{number.percent:.2f} ({number.count}/{number.of})"
    spread = "" if number.std is None else f" ± {number.std:.2f}"
    return f"{number.percent:.2f}{spread}"


def caption(rows: Sequence[Comparison]) -> str:
    """What the numbers are; for below a table."""
    seeds = max((len(row.seeds) for row in rows), default=0)
    return (
        f"Percent. TTM: mean over {seeds} run{'' if seeds == 1 else 's'} (the paper: 4) ± standard "
        "deviation, which divides by n as the paper's does. Δ, relative gain and error reduction: "
        "TTM over SimpleMatch, or over raw for 1 x k groups."
    )


def notes(rows: Sequence[Comparison]) -> list[str]:
    """Why rows stand without some of the paper's numbers, each reason once."""
    return list(
        dict.fromkeys(f"not compared with the paper: {row.note}" for row in rows if row.note)
    )


def print_comparison(rows: Sequence[Comparison], title: str) -> None:
    """The verdict of every number, the paper's columns, and notes."""
    from rich.table import Table

    from ttm_jax.report.terminal import print_fitting, screen

    verdicts = Table(title=title)
    for index, heading in enumerate(HEADINGS):
        number = index in (3, 4)  # never cut in two
        verdicts.add_column(heading, justify="right" if number else "left", no_wrap=number)
    for row in rows:
        for index, verdict in enumerate(row.verdicts):
            first = (name_of(row), row.model) if index == 0 else ("", "")
            last = verdict is row.verdicts[-1]
            cells = (*first, *_cells(row, verdict))
            verdicts.add_row(*map(rich_text, cells), end_section=last)
    layout = Table()
    for index, heading in enumerate(LAYOUT):
        layout.add_column(heading, justify="left" if index < 3 else "right", no_wrap=3 <= index < 7)
    for line in layout_lines(rows):
        layout.add_row(*map(rich_text, line))
    console = screen(_WIDE)
    print_fitting(console, verdicts, lambda: _narrow_verdicts(rows, title))
    print_fitting(console, layout, lambda: _narrow_layout(rows))
    for text in (caption(rows), *notes(rows)):
        console.print(text, highlight=False, markup=False)


def _narrow_verdicts(rows: Sequence[Comparison], title: str) -> Any:
    """The model below its dataset, and no column that is empty."""
    from ttm_jax.report.terminal import narrow_table

    found = [[_cells(row, verdict) for verdict in row.verdicts] for row in rows]
    every = [cells for row in found for cells in row]
    kept = [i for i in range(4) if i == 0 or any(cells[i] != "-" for cells in every)]
    table = narrow_table(title, ("dataset\nmodel", *(HEADINGS[2 + i] for i in kept)))
    if kept[-1] == 3:  # the verdict is a sentence
        table.columns[-1].no_wrap, table.columns[-1].justify = False, "left"
    table.columns[1].justify = "left"
    for row, shown in zip(rows, found, strict=True):
        for index, cells in enumerate(shown):
            first = (name_of(row), row.model) if len(shown) == 1 else (name_of(row),)
            left = rich_lines(*first) if index == 0 else rich_text(row.model if index == 1 else "")
            table.add_row(left, *(rich_text(cells[i]) for i in kept))
    return table


def _narrow_layout(rows: Sequence[Comparison]) -> Any:
    """Two lines per row of the paper's layout."""
    from ttm_jax.report.terminal import narrow_table

    headings = (
        "dataset\nmodel",
        "",
        "raw",
        "Simple\nMatch",
        "TTM",
        "Δ",
        "rel.\ngain",
        "error\nred.",
    )
    table = narrow_table("", headings)
    for name, model, side, raw, simple_match, ttm, *gains in layout_lines(rows):
        first = rich_lines(name, model) if name else ""
        table.add_row(first, side, raw, simple_match, ttm.replace(" ±", "\n±"), *gains)
    return table


def markdown(rows: Sequence[Comparison]) -> str:
    """The paper's layout, then the verdict of every number, then notes."""
    lines = [_line(LAYOUT), f"|{'---|' * 3}{'---:|' * (len(LAYOUT) - 3)}"]
    lines += [_line(cells) for cells in layout_lines(rows)]
    lines += ["", _line(HEADINGS), f"|{'---|' * len(HEADINGS)}"]
    for row in rows:
        for verdict in row.verdicts:
            lines.append(_line((name_of(row), row.model, *_cells(row, verdict))))
    lines += [f"\n{text}" for text in (caption(rows), *notes(rows))]
    return "\n".join(lines) + "\n"


def csv_text(rows: Sequence[Comparison]) -> str:
    """One line per number; an empty field is a number that does not exist."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_CSV)
    for row in rows:
        for verdict in row.verdicts:
            last = verdict.name == "ttm"
            fields: tuple[Any, ...] = (
                row.dataset, row.model, row.label, " ".join(map(str, row.seeds)), verdict.name,
                *(_field(verdict.paper, name) for name in ("percent", "count", "std")),
                *(_field(verdict.here, name) for name in ("percent", "count", "of", "std")),
                verdict.difference, verdict.kind, row.note,
                *_gain_fields(row.gain("here") if last else None),
                *_gain_fields(row.gain("paper") if last else None),
            )  # fmt: skip
            writer.writerow(["" if field is None else field for field in fields])
    return file.getvalue()


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _field(number: Number | None, name: str) -> Any:
    return None if number is None else getattr(number, name)


def _gain_fields(gain: Gain | None) -> tuple[float | None, ...]:
    if gain is None:
        return None, None, None
    values = (gain.points, gain.relative, gain.error_reduction)
    return tuple(value if math.isfinite(value) else None for value in values)


def _cells(row: Comparison, verdict: Verdict) -> tuple[str, str, str, str]:
    left_out = row.note and verdict.paper is None and verdict.here is not None
    return (
        TITLES[verdict.name],
        show(verdict.paper),
        show(verdict.here),
        "-" if left_out else verdict.text,
    )
