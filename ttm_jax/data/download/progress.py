"""Progress bars on a terminal, nothing elsewhere."""

import sys
import threading
from collections.abc import Callable
from typing import Any

from ttm_jax.progress_bar import progress_bar

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

    def __exit__(self, *error: object) -> None:
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
                self._display = progress_bar()
                self._display.start()
            display = self._display
            task = display.add_task(label, total=None, unit=unit)
        return lambda done, total: display.update(task, completed=done, total=total)
