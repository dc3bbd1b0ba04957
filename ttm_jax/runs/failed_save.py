"""When a checkpoint cannot be written: one error, instead of one per thread of orbax.

orbax and tensorstore write with several threads. When one fails, `save` raises at once; the others
fail later, and each prints a traceback of its own, some of them while Python is shutting down. Here
they are waited for, and what they print about the same failure is dropped.
"""

import logging
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_LONGEST_WAIT = 60.0  # seconds for one thread; they end in milliseconds unless the disk hangs
_UNFINISHED = ".orbax-checkpoint-tmp"


@contextmanager
def one_error(folder: Path, step: int) -> Iterator[None]:
    """Around a save: if it raises, nothing else is printed, and no unfinished step is left."""
    before = set(threading.enumerate())
    absl, asyncio = logging.getLogger("absl"), logging.getLogger("asyncio")
    hook = sys.unraisablehook
    sys.unraisablehook = _without_closed_loops(hook)
    absl.addFilter(_is_no_exception)
    try:
        yield
    except Exception:
        # The hook and the filters stay: some of it is reported much later.
        asyncio.addFilter(_is_retrieved)
        for thread in set(threading.enumerate()) - before:
            with suppress(Exception):  # joining such a thread raises its error again
                thread.join(_LONGEST_WAIT)
        for path in folder.glob(f"{step}{_UNFINISHED}*"):
            shutil.rmtree(path, ignore_errors=True)
        raise
    sys.unraisablehook = hook
    absl.removeFilter(_is_no_exception)


def _without_closed_loops(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """tensorstore ends its other writes after their event loop was closed, and reports that."""

    def report(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            hook(unraisable)

    return report


def _is_no_exception(record: logging.LogRecord) -> bool:
    """False for the exceptions that threads log: the save itself raises them."""
    return record.exc_info is None


def _is_retrieved(record: logging.LogRecord) -> bool:
    """False for writes whose result nobody awaits, because another write had failed."""
    return "exception was never retrieved" not in record.getMessage()
