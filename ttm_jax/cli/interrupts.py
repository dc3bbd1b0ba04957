"""Ctrl-C is acknowledged at once and obeyed within seconds, also while a model is compiled.

Python runs signal handlers between its own instructions, so nothing happens while the main thread
is inside XLA or an import. The C part of the signal machinery, however, writes the signal's number
to a pipe at once (`signal.set_wakeup_fd`), and a second thread reads it. If the main thread does
not end by itself soon and no training step would be lost, that thread ends the process: run folders
are whole at any time, so it is resumed like one that was killed.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ttm_jax.hosts import shutdown
from ttm_jax.runs.signals import nothing_to_lose

PATIENCE = 3.0  # seconds for the main thread to end by itself
_PAUSE = 0.02  # seconds
_SWALLOWED = b"\0"  # beside the numbers of signals, which begin at 1
_SHOW_CURSOR = "\x1b[?25h"  # progress bars hide it


@contextmanager
def acknowledged_interrupts() -> Iterator[None]:
    """Watch for Ctrl-C in a thread while the block runs. Only in the main thread of a command."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _Watch():
        yield


def acknowledge() -> None:
    """Say that the command stops, unless it was said: before the main thread says that it has."""
    for watch in _watching:
        watch.acknowledge()


class _Watch:
    """The thread that reads the signals, and what it has said."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._over = threading.Event()
        self._said = threading.Event()
        self._saying = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._hook_before = sys.unraisablehook
        sys.unraisablehook = self._ask_again_if_swallowed
        self._handler_before = signal.getsignal(signal.SIGINT)
        if self._handler_before is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        self._thread.start()
        _watching.append(self)

    def __exit__(self, *error: object) -> None:
        self._over.set()
        _watching.remove(self)
        sys.unraisablehook = self._hook_before
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, self._handler_before)
        signal.set_wakeup_fd(self._before)
        os.close(self._writing)  # the watcher reads the end of the pipe
        self._thread.join()
        os.close(self._reading)

    def acknowledge(self) -> None:
        with self._saying:
            if not self._said.is_set():
                self._said.set()
                _write("stopping; Ctrl-C again to stop at once")

    def _ask_again_if_swallowed(self, unraisable: "sys.UnraisableHookArgs", /) -> None:
        """Python drops what a destructor or a callback of the garbage collector raises.

        JAX has such a callback, and it is often the first thing that runs after a compilation.
        """
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            os.write(self._writing, _SWALLOWED)
        else:
            self._hook_before(unraisable)

    def _watch(self) -> None:
        asked = ours = 0
        while byte := os.read(self._reading, 1):
            if self._over.is_set():
                continue
            if byte == _SWALLOWED:
                ours += 1
                self._over.wait(_PAUSE)  # for the callback to return
                signal.pthread_kill(_main_thread(), signal.SIGINT)
            elif byte[0] == signal.SIGINT and ours:
                ours -= 1
            elif byte[0] == signal.SIGINT:
                asked += 1
                if asked > 1:
                    _leave("stopped at once")
                self.acknowledge()
                threading.Thread(target=self._end_if_stuck, daemon=True).start()

    def _end_if_stuck(self) -> None:
        if not self._over.wait(PATIENCE) and nothing_to_lose():
            _leave("stopped; rerun the same command to resume or start again")


_watching: list[_Watch] = []


def stop() -> NoReturn:
    """End the process and say so; in a pod, to the other hosts too."""
    acknowledge()
    shutdown.leave_at_once(shutdown.refuse("stopped", 130))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt as Python does, but not inside an import.

    Extensions turn an import that fails into errors of their own, or end in an endless recursion.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            stop()
        frame = frame.f_back
    raise KeyboardInterrupt


def _main_thread() -> int:
    number = threading.main_thread().ident
    assert number is not None  # it runs
    return number


def _leave(text: str) -> None:
    _write(text)
    os._exit(130)


def _write(text: str) -> None:
    """Past Python's buffers and progress bars, which belong to the main thread."""
    start = f"\r{_SHOW_CURSOR}" if sys.stderr.isatty() else ""
    os.write(2, f"{start}{text}\n".encode())
