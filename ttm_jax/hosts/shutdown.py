"""How a command ends when it runs on several hosts. Light: commands on one host import it too."""

import os
import sys
import traceback
from typing import NoReturn, Protocol, runtime_checkable


@runtime_checkable
class Together(Protocol):
    """What `watch.Watch` does at the end."""

    def fail(self, text: str, code: int) -> bool: ...
    def leave(self) -> None: ...
    def wait_for_reason(self) -> None: ...
    def speak(self) -> None: ...


_together: Together | None = None


def register(together: Together) -> None:
    """Called when several hosts have become one program."""
    global _together
    _together = together


def refuse(line: str, code: int) -> int:
    """Say on one host why the command ends early, and end the other hosts as well."""
    if _together is None:
        print(line, file=sys.stderr)
        return code
    if _together.fail(line, code):
        _together.speak()
        print(line, file=sys.stderr)
    leave_at_once(code)
    return code


def finish() -> None:
    """Wait until every host has done its part."""
    if _together is not None:
        _together.leave()


def crash(error: BaseException) -> None:
    """An error that nobody expected; returns on a single host, where Python shows it."""
    if _together is None:
        return
    _together.wait_for_reason()  # a lost host makes the others fail in many ways
    _together.speak()
    traceback.print_exception(error)
    _together.fail(f"error: {type(error).__name__}: {error}", 1)
    leave_at_once(1)


def leave_at_once(code: int) -> NoReturn:
    """Without JAX's own farewell.

    It waits for hosts that are gone, and it crashes while XLA compiles in a thread of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
