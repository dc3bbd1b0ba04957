"""orbax in a process that has a run of its own, in a program of several processes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from orbax.checkpoint import multihost as _public  # noqa: F401 - loads the module below
from orbax.checkpoint._src.multihost import multihost

from ttm_jax.hosts import this_host

_lock = threading.Lock()
_inside = 0
_original: Any = multihost.process_index


@contextmanager
def as_only_process() -> Iterator[None]:
    """Let orbax take this process for the first one while it reads or writes.

    orbax writes arrays of one process on process 0 only, whoever is said to be the primary host.
    Does nothing where all processes work together.
    """
    if not this_host.is_alone():
        yield
        return
    _enter(1)
    try:
        yield
    finally:
        _enter(-1)


def _enter(step: int) -> None:
    """Seeds side by side save in several threads: the last one puts things back."""
    global _inside
    with _lock:
        _inside += step
        multihost.process_index = (lambda: 0) if _inside else _original
