"""Treat SIGTERM and Ctrl-C as requests to save everything and stop at the next step."""

import signal
import threading
from pathlib import Path
from types import FrameType


class RunInterrupted(Exception):
    """The run was asked to stop and has saved its state; rerun the same command to resume."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class StopFlag:
    """Set by the first SIGTERM or Ctrl-C; a second Ctrl-C stops immediately.

    Outside the main thread, where Python does not allow handlers, the flag is never set.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._previous: dict[int, object] = {}
        self.steps_taken = False
        """Whether there are steps that would be lost if the process ended now."""

    def __enter__(self) -> "StopFlag":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._handle)
            _running.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self in _running:
            _running.remove(self)
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = number

    def is_set(self) -> bool:
        return self._signal is not None

    def error(self, path: Path | None) -> RunInterrupted:
        where = "nothing was saved: no run folder was given" if path is None else f"saved in {path}"
        number = self._signal or signal.SIGTERM
        name = signal.Signals(number).name
        return RunInterrupted(f"stopped by {name}, {where}", 128 + number)


_running: list[StopFlag] = []


def nothing_to_lose() -> bool:
    """Whether the process may end at once: no run has taken a step that is not on disk.

    What is on disk is whole at any time, so a run that is still loading or compiling can be ended
    and resumed like one that was killed.
    """
    return not any(flag.steps_taken for flag in _running)
