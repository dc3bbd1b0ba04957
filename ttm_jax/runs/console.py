"""Console output of a run: a progress bar, and one line per iteration."""

import sys
import time
from typing import Any, Literal

from ttm_jax.matching.metric_names import METRICS, headline_in
from ttm_jax.progress_bar import draws_in_notebook, in_notebook, progress_bar

Mode = Literal["auto", "rich", "plain", "quiet"]
_INTERVAL = 30.0  # seconds between progress lines in a log file
# Columns and their least widths: together with the metrics they fit on 80 columns.
_WIDTHS = {"iter": 4, "tau": 7, "selected": 9, "precision": 9, "loss": 7, "lr": 8, "sec": 7}


class Console:
    """Shows the progress of runs on stderr: one line per iteration, and a progress bar.

    Use it as a context manager around one or more runs.

    Args:
        mode: "rich" draws progress bars, "plain" prints lines for a log file (of the steps, at
            most one in half a minute), "quiet" prints nothing. "auto" is "rich" on a terminal and
            in a notebook with ipywidgets, and "plain" elsewhere.

    Examples:
        >>> from ttm_jax import Console
        >>> with Console("quiet") as console:  # pass it to run_ttm(..., console=console)
        ...     console.say("not shown")
    """

    def __init__(self, mode: Mode = "auto") -> None:
        if mode == "auto":
            mode = "rich" if sys.stderr.isatty() or draws_in_notebook() else "plain"
        self.mode = mode
        self._progress: Any = None
        self._task: Any = None
        self._label, self._began, self._next = "", 0.0, 0.0
        self._compiled, self._headed = False, False

    def __enter__(self) -> "Console":
        if self.mode == "rich":
            self._progress = progress_bar()
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def say(self, text: str) -> None:
        """Print a line of text.

        Args:
            text: The line.
        """
        if self._progress is not None:
            self._progress.console.print(text, highlight=False, markup=False)
        elif self.mode != "quiet":
            print(text, file=sys.stderr, flush=True)

    def header(self, seed: int | None = None) -> None:
        """Begin a new table: the next line that `iteration` prints has the column names above it.

        Args:
            seed: The seed that the lines belong to, named above them.
        """
        if seed is not None:
            self.say(f"seed {seed}")
        self._headed = False

    def iteration(self, row: dict[str, Any]) -> None:
        """Print the line of one iteration, with the metrics that the data allows.

        Args:
            row: The iteration's line of `metrics.jsonl`.
        """
        cells = _cells(row)
        widths = [max(_WIDTHS.get(name, 0), len(name)) for name in cells]
        if not self._headed:
            self._headed = True
            self.say(_line(list(cells), widths))
        self.say(_line(list(cells.values()), widths))

    def begin(self, label: str) -> None:
        """Start a progress bar. Until the first step is done, it says that the model is compiled.

        Args:
            label: What is shown beside the bar.
        """
        self._label, self._began = label, time.monotonic()
        self._next = self._began + _INTERVAL
        if self._progress is not None:
            self.end()
            first = label if self._compiled else f"{label}, compiling"
            self._task = self._progress.add_task(first, total=None)
        elif not self._compiled:
            self.say(f"{label}: compiling")

    def progress(self, done: int, total: int) -> None:
        """Advance the progress bar.

        Args:
            done: Finished steps.
            total: All steps.
        """
        self._compiled = True
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total, description=self._label)
        elif self.mode == "plain" and (now := time.monotonic()) >= self._next:
            self._next = now + _INTERVAL
            self.say(f"{self._label}: step {done}/{total} after {now - self._began:.0f} s")

    def status(self, text: str) -> None:
        """Say beside the bar what is being done; in a log file, at most once in half a minute.

        Args:
            text: What is being done.
        """
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=f"{self._label}, {text}")
        elif self.mode == "plain" and (now := time.monotonic()) >= self._next:
            self._next = now + _INTERVAL
            self.say(f"{self._label}: {text}")

    def end(self) -> None:
        """Remove the progress bar."""
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """What is shown of a row, by column; precision and metrics only where labels allow them."""
    metrics, known = row["metrics"], row["iteration"] > 0
    cells = {
        "iter": str(row["iteration"]),
        "tau": f"{row['tau']:.4g}" if known else "-",
        "selected": f"{row['selected']}/{row['units']}" if known else "-",
    }
    if metrics:
        precision = row.get("precision")
        cells["precision"] = "-" if precision is None else f"{100 * precision:.1f}"
        for name in dict.fromkeys(("group_score", headline_in(metrics))):
            if name in metrics:
                cells[METRICS[name].label] = f"{metrics[name]['percent']:.2f}"
    cells["loss"] = "-" if row.get("loss") is None else f"{row['loss']:.4f}"
    cells["lr"] = f"{row['lr']:.2e}" if known else "-"
    cells["sec"] = f"{row['seconds']:.1f}"
    return cells


def _line(cells: list[str], widths: list[int]) -> str:
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def default_console() -> Console:
    """For library calls: on a terminal or in a notebook progress is shown, elsewhere nothing."""
    if in_notebook():
        return Console()
    return Console("rich" if sys.stderr.isatty() else "quiet")
