"""The VQAScore benchmark runs, and its three sides agree; no time is asserted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parent.parent


def test_quick():
    # One device, as on a desk; and the repository itself, whatever is installed.
    env = {
        **os.environ,
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "benchmarks/vqascore.py", "--quick", "--tiles", "2"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("x plain", "x PyTorch", "peak memory, GB: shared"):
        assert text in done.stdout
