"""The rows that benchmarks report: shown as a table, and kept as JSON for the table of all."""

import json
import platform
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from _sides import Seconds, cpu, machine, make_console, ratio, spread
from rich.box import SIMPLE_HEAD
from rich.table import Table

COLUMNS = ("subject", "what", "ttm_jax", "other", "ratio", "from-to", "CPU time")


@dataclass(frozen=True)
class Row:
    """One comparison; ratios above 1 say that ttm_jax is faster or smaller."""

    benchmark: str
    subject: str
    what: str
    ours: float
    theirs: float | None = None
    ratio: float | None = None
    spread: str = ""
    cpu_ratio: float | None = None

    def cells(self) -> list[str]:
        def number(x: float | None) -> str:
            return "" if x is None else f"{x:.2f}"

        numbers = (self.ours, self.theirs, self.ratio)
        left = [self.subject, self.what, *map(number, numbers)]
        return [*left, self.spread, number(self.cpu_ratio)]


@dataclass
class Results:
    """What one benchmark has measured so far."""

    benchmark: str
    rows: list[Row] = field(default_factory=list)

    def turns(
        self, subject: str, what: str, ours: list[Seconds], theirs: list[Seconds], count: float = 0
    ) -> None:
        """Times of turns; with `count`, shown as that many per second."""

        def shown(seconds: list[Seconds]) -> float:
            return count / median(seconds) if count else median(seconds)

        self.rows.append(
            Row(
                self.benchmark,
                subject,
                what,
                shown(ours),
                shown(theirs),
                ratio(ours, theirs),
                spread(ours, theirs),
                ratio(cpu(ours), cpu(theirs)),
            )
        )

    def values(self, subject: str, what: str, ours: float, theirs: float | None = None) -> None:
        """One number of each side, of which less is better."""
        times = None if theirs is None else theirs / ours
        self.rows.append(Row(self.benchmark, subject, what, ours, theirs, times))

    def show(self, title: str) -> None:
        table = Table(box=SIMPLE_HEAD, title=title)
        for column in COLUMNS:
            table.add_column(column, justify="left" if column in COLUMNS[:2] else "right")
        for row in self.rows:
            table.add_row(*row.cells())
        console = make_console()
        console.print(table)
        console.print(
            "other: PyTorch, or what the row names; ratio: how many times faster (or smaller) "
            "ttm_jax is, median over turns; CPU time: the same for the time that all threads took, "
            "which a busy machine changes little"
        )

    def save(self, path: Path | None) -> None:
        if path is not None:
            path.write_text(json.dumps([asdict(row) for row in self.rows], indent=1) + "\n")


def about() -> dict[str, Any]:
    """Machine, date and versions of a measurement."""
    return {
        "machine": machine(),
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("jax", "jaxlib", "torch", "transformers")},
    }


def markdown(measured: dict[str, Any]) -> str:
    """All benchmarks (facts and rows of each) as Markdown tables, each under its line of facts."""
    lines: list[str] = []
    for found in measured.values():
        facts = ", ".join(f"{name} {value}" for name, value in found["about"].items())
        rows = [Row(**row) for row in found["rows"]]
        lines += [f"## {rows[0].benchmark.capitalize()}", "", facts, ""]
        lines += ["| " + " | ".join(COLUMNS) + " |", "| --- " * len(COLUMNS) + "|"]
        lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
