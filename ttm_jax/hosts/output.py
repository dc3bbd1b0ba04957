"""What the hosts say: the first prints; the others keep it to themselves unless they fail."""

import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Callable

from ttm_jax.plain_text import one_line

_SHOW_CURSOR = "\x1b[?25h"  # progress bars hide it
_TAIL = 20_000  # bytes of what a silent host would have printed, shown when it crashes
_handlers: list = []  # called by C: must not be collected


class Voice:
    """The standard streams of this host."""

    def __init__(self) -> None:
        self._screen = os.dup(2)
        self._before: tuple[int, int] | None = None

    def silence(self) -> None:
        """From now on, everything that this process prints is only kept.

        Also what compiled code prints, such as what JAX says about a coordinator that is gone.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        self._before = os.dup(1), os.dup(2)
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - open until the process ends
        os.dup2(self._kept.fileno(), 1)
        os.dup2(self._kept.fileno(), 2)

    def restore(self) -> None:
        """Print again, as before `silence`."""
        if self._before is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, descriptor in zip((1, 2), self._before, strict=True):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            self._before = None

    def say(self, text: str) -> None:
        """One line on the screen, past Python's buffers and progress bars."""
        start = f"\r{_SHOW_CURSOR}" if os.isatty(self._screen) else ""
        os.write(self._screen, f"{start}{one_line(text)}\n".encode())

    def show_kept(self) -> None:
        """The end of what was kept: this process is about to crash, and it may say why."""
        if self._before is not None:
            size = os.fstat(self._kept.fileno()).st_size
            os.write(self._screen, os.pread(self._kept.fileno(), _TAIL, max(0, size - _TAIL)))


def before_abort(react: Callable[[], None]) -> None:
    """Call `react` when compiled code aborts this process.

    JAX does that as soon as its coordinator, on the first host, is gone. Python's own handlers
    would run in the main thread, which never gets there.
    """

    def handle(number: int) -> None:
        react()

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(handle)
    _handlers.append(handler)
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))


def as_usual() -> None:
    """Undo `before_abort`."""
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
