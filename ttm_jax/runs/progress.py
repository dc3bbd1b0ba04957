"""Progress of a long task: a bar on a terminal, or one line every ten seconds in a log file."""

import sys
import time

from ttm_jax.progress_bar import progress_bar

_INTERVAL = 10.0  # seconds between lines in a log file


class Progress:
    """Context manager that is notified of every finished item. This base class shows nothing."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def update(self, done: int, total: int, text: str) -> None:
        """`text` is shown next to the numbers verbatim: it is not parsed as markup."""


class LineProgress(Progress):
    """Prints a line to stderr every ten seconds, and one at the end."""

    def __init__(self, items: str) -> None:
        self._items = items
        self._next = time.monotonic() + _INTERVAL

    def update(self, done: int, total: int, text: str) -> None:
        if time.monotonic() >= self._next or done == total:
            self._next = time.monotonic() + _INTERVAL
            print(f"{done}/{total} {self._items}, {text}", file=sys.stderr, flush=True)


class BarProgress(Progress):
    """Draws a bar with the elapsed and remaining time."""

    def __init__(self, items: str) -> None:
        self._bar = progress_bar(extra=("{task.fields[text]}",))
        self._task = self._bar.add_task(items, total=None, text="")

    def __enter__(self) -> "BarProgress":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int, text: str) -> None:
        self._bar.update(self._task, completed=done, total=total, text=text)


def progress_on_stderr(items: str) -> Progress:
    """A bar if stderr is a terminal, lines otherwise."""
    return BarProgress(items) if sys.stderr.isatty() else LineProgress(items)
