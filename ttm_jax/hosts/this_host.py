"""Which host this is, and whether others take part. Everything that prints or writes asks here.

A host is a process of the program; on a TPU pod there is one on each machine. Inside `alone()` a
process works by itself, on its own devices, although the program has several. Light to import: JAX
is asked when it is needed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_alone: ContextVar[bool | None] = ContextVar("alone", default=None)


@contextmanager
def alone(*, writes: bool = True) -> Iterator[None]:
    """Let this process work by itself, for example on a seed of its own.

    Args:
        writes: Whether it writes what it computes; False only reads what another one has written.
    """
    token = _alone.set(writes)
    try:
        yield
    finally:
        _alone.reset(token)


def is_alone() -> bool:
    """Whether this process works by itself in a program of several."""
    return _alone.get() is not None


def count() -> int:
    """How many hosts work together here."""
    if is_alone():
        return 1
    import jax

    return jax.process_count()


def is_first() -> bool:
    """Whether this host prints and writes."""
    writes = _alone.get()
    return index() == 0 if writes is None else writes


def index() -> int:
    """The number of this host."""
    import jax

    return jax.process_index()


def devices() -> list:
    """The devices of all hosts that work together here."""
    import jax

    return jax.local_devices() if is_alone() else jax.devices()
