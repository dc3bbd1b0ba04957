"""Freed blocks are kept, so that the same amount of memory is not fetched again."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from ttm_jax.host_memory import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)
np.ones(2**23)  # the first 64 MiB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    np.ones(2**23)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc, on Linux")
def test_pages_are_fetched_once() -> None:
    faults = {}
    for way in ("usual", "kept"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=False
        )
        if done.returncode == 3:
            pytest.skip("the C library is not glibc")
        assert done.returncode == 0, done.stderr
        faults[way] = int(done.stdout)
    assert faults["kept"] < 100 < faults["usual"]
