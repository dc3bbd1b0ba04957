"""SIGTERM and Ctrl-C as a request to stop at the next step, with everything saved."""

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType


class RunInterrupted(Exception):
    """The run was asked to stop and has saved its state; the same command goes on from there."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class StopFlag:
    """Set by the first SIGTERM or Ctrl-C; the second Ctrl-C stops at once.

    Outside the main thread, where Python does not allow handlers, the flag is never set.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopFlag":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
