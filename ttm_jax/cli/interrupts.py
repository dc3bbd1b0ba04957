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

from ttm_jax.runs.signals import nothing_to_lose

PATIENCE = 3.0  # seconds for the main thread to end by itself
_SHOW_CURSOR = "\x1b[?25h"  # progress bars hide it


@contextmanager
def acknowledged_interrupts() -> Iterator[None]:
    """Watch for Ctrl-C in a thread while the block runs. Only in the main thread of a command."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    over = threading.Event()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writing)  # the watcher reads the end of the pipe
        watcher.join()
        os.close(reading)


def _watch(reading: int, over: threading.Event) -> None:
    asked = 0
    while number := os.read(reading, 1):
        if number[0] != signal.SIGINT or over.is_set():
            continue
        asked += 1
        if asked > 1:
            _leave("stopped at once")
        _write("stopping; Ctrl-C again to stop at once")
        threading.Thread(target=_end_if_stuck, args=(over,), daemon=True).start()


def _end_if_stuck(over: threading.Event) -> None:
    if not over.wait(PATIENCE) and nothing_to_lose():
        _leave("stopped; rerun the same command to resume or start again")


def _leave(text: str) -> None:
    _write(text)
    os._exit(130)


def _write(text: str) -> None:
    """Past Python's buffers and progress bars, which belong to the main thread."""
    start = f"\r{_SHOW_CURSOR}" if sys.stderr.isatty() else ""
    os.write(2, f"{start}{text}\n".encode())
