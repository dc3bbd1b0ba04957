"""Places where a test can kill the process: between two writes that must agree after a crash.

    TTM_JAX_FAULT_POINT="metrics appended:3" ttm adapt ...

kills the process with SIGKILL when it passes that point for the third time. Nothing else happens
here; without the variable a fault point costs one look at the environment.
"""

import os
import signal
from collections import Counter

VARIABLE = "TTM_JAX_FAULT_POINT"
_passed: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Die here if the environment says so."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    _passed[name] += 1
    point, _, count = wanted.partition(":")
    if point == name and _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
