"""The measurements as a table on the screen, in Markdown and in JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

COLUMNS = ("command", "result", "seconds", "first scores, s", "peak memory, GB", "on disk, GB")


@dataclass(frozen=True)
class Row:
    model: str
    command: str
    result: str
    seconds: float
    peak_gb: float
    first_scores: float | None = None
    """Seconds until the scores of the original model were written."""
    disk_gb: float | None = None
    """Size of what the command has written."""
    disk: str = ""
    """What that is."""

    def cells(self) -> tuple[str, ...]:
        first = "" if self.first_scores is None else f"{self.first_scores:.0f}"
        size = "" if self.disk_gb is None else f"{self.disk_gb:.2f} ({self.disk})"
        return (f"`{self.command}`", self.result, f"{self.seconds:.0f}", first,
                f"{self.peak_gb:.2f}", size)  # fmt: skip


def markdown(rows: Sequence[Row], machine: str) -> str:
    """One table per model."""
    lines = [f"Machine: {machine}."]
    for model in dict.fromkeys(row.model for row in rows):
        lines += ["", f"### {model}", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
        lines += [_line(row.cells()) for row in rows if row.model == model]
    return "\n".join(lines) + "\n"


def write(rows: Sequence[Row], machine: str, folder: Path) -> None:
    """`rehearsal.md` and `rehearsal.json`."""
    (folder / "rehearsal.md").write_text(markdown(rows, machine))
    content = {"machine": machine, "rows": [asdict(row) for row in rows]}
    (folder / "rehearsal.json").write_text(json.dumps(content, indent=2) + "\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
