"""When an orbax checkpoint cannot be read: one error, and nothing else on the screen.

orbax logs some errors besides raising them, and the reads that were under way when one failed are
reported by Python whenever they are collected, each with a traceback.
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TREE = "_METADATA"


@contextmanager
def only_the_error() -> Iterator[None]:
    """Around a read: if it raises, that exception is all that is heard of it."""
    absl = logging.getLogger("absl")
    absl.addFilter(_is_no_error)
    _ignore_unfinished_reads()
    try:
        yield
    finally:
        absl.removeFilter(_is_no_error)


def check_tree(folder: Path) -> None:
    """Raise `ValueError` if the description of a tree is broken; orbax's own errors are vague."""
    try:
        found = json.loads((folder / _TREE).read_bytes().decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{_TREE} is not JSON: {error}") from error
    leaves = found.get("tree_metadata") if isinstance(found, dict) else None
    if not isinstance(leaves, dict) or not all(isinstance(x, dict) for x in leaves.values()):
        raise ValueError(f"{_TREE} does not describe a tree of arrays")


def _is_no_error(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR


def _ignore_unfinished_reads() -> None:
    """For the rest of the process: they end, or are collected, at any later time."""
    hook = sys.unraisablehook
    if getattr(hook, "ignores_reads", False):
        return

    def report(unraisable: Any) -> None:
        if not (_is_of_orbax(unraisable.object) or _came_too_late(unraisable.exc_value)):
            hook(unraisable)

    report.ignores_reads = True  # type: ignore[attr-defined]
    sys.unraisablehook = report


def _is_of_orbax(found: object) -> bool:
    """Whether it is a coroutine of orbax that was never awaited to its end."""
    code = getattr(found, "cr_code", None)
    return code is not None and "orbax" in Path(code.co_filename).parts


def _came_too_late(error: BaseException | None) -> bool:
    """tensorstore's threads hand what they read to an event loop that the error has closed."""
    return isinstance(error, RuntimeError) and str(error) == "Event loop is closed"
