"""What a run shows while it goes: a progress bar with the time left and a line an iteration."""

import sys
from types import TracebackType
from typing import Any, Literal

Mode = Literal["auto", "rich", "plain", "quiet"]
_COLUMNS = ("iter", "tau", "selected", "precision", "GroupScore", "GroupMatch", "loss", "lr", "sec")


class Console:
    """A context manager around the runs of one command.

    "rich" draws bars and tables, "plain" prints lines for a log file, "quiet" says nothing; "auto"
    is rich on a terminal and plain elsewhere.
    """

    def __init__(self, mode: Mode = "auto") -> None:
        if mode == "auto":
            mode = "rich" if sys.stderr.isatty() else "plain"
        self.mode = mode
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> "Console":
        if self.mode == "rich":
            from rich.console import Console as RichConsole
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=RichConsole(stderr=True),
                transient=True,
            )
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def say(self, text: str) -> None:
        """One line of prose."""
        if self._progress is not None:
            self._progress.console.print(text, highlight=False, markup=False)
        elif self.mode != "quiet":
            print(text, file=sys.stderr, flush=True)

    def header(self) -> None:
        self.say("  ".join(f"{name:>{max(len(name), 8)}}" for name in _COLUMNS))

    def iteration(self, row: dict[str, Any]) -> None:
        """The line of one iteration, from its row of metrics.jsonl."""
        metrics = row["metrics"]

        def percent(name: str) -> str:
            value = metrics.get(name)
            return "-" if value is None else f"{value['percent']:.2f}"

        precision = row.get("precision")
        known = row["iteration"] > 0
        cells = (
            str(row["iteration"]),
            f"{row['tau']:.4g}" if known else "-",
            f"{row['selected']}/{row['units']}" if known else "-",
            "-" if precision is None else f"{100 * precision:.1f}",
            percent("group_score"),
            percent("global_match" if "global_match" in metrics else "group_match"),
            "-" if row.get("loss") is None else f"{row['loss']:.4f}",
            f"{row['lr']:.2e}" if known else "-",
            f"{row['seconds']:.1f}",
        )
        widths = (max(len(name), 8) for name in _COLUMNS)
        self.say("  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)))

    def begin(self, label: str) -> None:
        """A bar for the steps of an iteration; how many there are comes with `progress`."""
        if self._progress is not None:
            self.end()
            self._task = self._progress.add_task(label, total=None)

    def progress(self, done: int, total: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def end(self) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
