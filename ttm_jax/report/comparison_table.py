"""Rows beside the paper's: for the screen, as Markdown and as CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from ttm_jax.report.verdict import Comparison, Number, Verdict

TITLES = {"raw": "raw", "simple_match": "SimpleMatch", "ttm": "TTM"}
HEADINGS = ("dataset", "model", "number", "paper", "here", "verdict")
_CSV = (
    "dataset", "model", "label", "seeds", "number", "paper", "paper_count", "paper_std",
    "here", "count", "of", "std", "difference", "verdict", "note",
)  # fmt: skip


def show(number: Number | None) -> str:
    """22.96 (31/135), or 89.44 ± 0.96."""
    if number is None:
        return "-"
    if number.count is not None:
        return f"{number.percent:.2f} ({number.count}/{number.of})"
    spread = "" if number.std is None else f" ± {number.std:.2f}"
    return f"{number.percent:.2f}{spread}"


def name_of(row: Comparison) -> str:
    return f"{row.dataset} ({row.label})" if row.label else row.dataset


def notes(rows: Sequence[Comparison]) -> list[str]:
    """Why rows stand without the paper's, each reason once."""
    return list(dict.fromkeys(f"not beside the paper's: {row.note}" for row in rows if row.note))


def print_comparison(rows: Sequence[Comparison], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    seeds = max((len(row.seeds) for row in rows), default=0)
    table = Table(
        title=title,
        caption=f"percent; TTM: mean and sample standard deviation of {seeds} seeds, the paper's 4",
    )
    for index, heading in enumerate(HEADINGS):
        number = index in (3, 4)  # never cut in two
        table.add_column(heading, justify="right" if number else "left", no_wrap=number)
    for row in rows:
        for index, verdict in enumerate(row.verdicts):
            first = (name_of(row), row.model) if index == 0 else ("", "")
            table.add_row(*first, *_cells(row, verdict), end_section=verdict is row.verdicts[-1])
    console = Console()
    console.print(table)
    for note in notes(rows):
        console.print(note, highlight=False, markup=False)


def markdown(rows: Sequence[Comparison]) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    for row in rows:
        for verdict in row.verdicts:
            cells = (name_of(row), row.model, *_cells(row, verdict))
            lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\n{note}" for note in notes(rows)]
    return "\n".join(lines) + "\n"


def csv_text(rows: Sequence[Comparison]) -> str:
    """One line a number; an empty field is a number that there is not."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_CSV)
    for row in rows:
        for verdict in row.verdicts:
            here, paper = verdict.here, verdict.paper or Number(float("nan"))
            fields: tuple[Any, ...] = (
                row.dataset, row.model, row.label, " ".join(map(str, row.seeds)), verdict.name,
                None if verdict.paper is None else paper.percent, paper.count, paper.std,
                here.percent, here.count, here.of, here.std,
                verdict.difference, verdict.kind, row.note,
            )  # fmt: skip
            writer.writerow(["" if field is None else field for field in fields])
    return file.getvalue()


def _cells(row: Comparison, verdict: Verdict) -> tuple[str, str, str, str]:
    return (
        TITLES[verdict.name],
        show(verdict.paper),
        show(verdict.here),
        "-" if row.note else verdict.text,
    )
