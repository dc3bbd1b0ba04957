"""Progress bars on a terminal, nothing elsewhere."""

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

# Called with how much is here and of how much (None: not known).
Bar = Callable[[int, int | None], object]


def no_bar(done: int, total: int | None) -> None:
    """Shows nothing."""


class Progress:
    """A context in which bars can be added; they vanish when it ends."""

    def __init__(self, show: bool | None = None) -> None:
        self._show = sys.stderr.isatty() if show is None else show
        self._display: Any = None
        self._lock = threading.Lock()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._show = False  # a thread that is late must not start a display nobody ends
            if self._display is not None:
                self._display.stop()
                self._display = None

    def bytes(self, label: str) -> Bar:
        return self._add(label, "bytes")

    def items(self, label: str) -> Bar:
        return self._add(label, "items")

    def _add(self, label: str, unit: str) -> Bar:
        with self._lock:
            if not self._show:
                return no_bar
            if self._display is None:
                self._display = _start_display()
            display = self._display
            task = display.add_task(label, total=None, unit=unit)
        return lambda done, total: display.update(task, completed=done, total=total)


def _start_display() -> Any:
    from rich import progress
    from rich.console import Console

    class Amount(progress.ProgressColumn):
        """Bytes or a number of things, as the task says."""

        _bytes, _items = progress.DownloadColumn(), progress.MofNCompleteColumn()

        def render(self, task: Any) -> Any:
            column = self._bytes if task.fields["unit"] == "bytes" else self._items
            return column.render(task)

    display = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        Amount(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    display.start()
    return display
