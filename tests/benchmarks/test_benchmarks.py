"""The benchmarks run, and their two sides agree; no time is asserted."""

import os
import subprocess
import sys

import pytest
from paths import TESTS

pytest.importorskip("torch")
ROOT = TESTS.parent


@pytest.mark.parametrize(
    ("script", "flags", "expected"),
    [
        ("scoring", ["--models", "clip-b32"], ("1x4: groups/s", "peak memory, GB")),
        pytest.param(
            "ttm",
            ["--models", "siglip-b16"],
            ("seconds, compiled", "groups trained on"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "profile_step",
            ["--parts", "block", "--batch", "2"],
            ("block, forward", "block, both"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "vqascore",
            ["--tiles", "2"],
            ("x plain", "x PyTorch", "peak memory, GB: shared"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_quick(script, flags, expected):
    # One device, as on a desk; and the repository itself, whatever is installed.
    env = {
        **os.environ,
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, f"benchmarks/{script}.py", "--quick", *flags]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in expected:
        assert text in done.stdout
