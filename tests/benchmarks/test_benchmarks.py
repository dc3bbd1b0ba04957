"""The benchmarks run, and their two sides agree; no time is asserted."""

import json
import os
import subprocess
import sys

import pytest
from paths import TESTS

pytest.importorskip("torch")
ROOT = TESTS.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from _results import Results, Row, about, markdown  # noqa: E402
from _sides import Seconds  # noqa: E402


@pytest.mark.parametrize(
    ("script", "flags", "expected"),
    [
        ("scoring", ["--models", "clip-b32"], ("1x4: groups/s", "peak memory, GB", "CPU time")),
        pytest.param(
            "ttm",
            ["--models", "siglip-b16"],
            ("s, compiled; usual loop", "careful loop", "last:2 against all", "on all sides"),
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
            ("pairs/s; against every prompt in full", "peak memory, GB"),
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


def test_the_table_of_all_has_every_row_and_says_where_it_was_measured():
    rows = [
        Row("scoring", "clip-b32", "images/s", 4.0, 2.0, 2.0, "1.9-2.1", 1.8).__dict__,
        Row("whole runs", "clip-b32", "s of the first run, compiling", 12.0).__dict__,
    ]
    text = markdown(rows, about())
    assert text.splitlines()[0].startswith("machine ")
    assert "| scoring | clip-b32 | images/s | 4.00 | 2.00 | 2.00 | 1.9-2.1 | 1.80 |" in text
    assert "| whole runs | clip-b32 | s of the first run, compiling | 12.00 |  |  |  |  |" in text


def test_turns_are_compared_in_wall_time_and_in_cpu_time(tmp_path):
    def seconds(wall: float, busy: float) -> Seconds:
        found = Seconds(wall)
        found.cpu = busy
        return found

    results = Results("scoring")
    results.turns("m", "images/s", [seconds(2.0, 3.0)] * 3, [seconds(4.0, 4.5)] * 3, count=8)
    (row,) = results.rows
    assert (row.ours, row.theirs, row.ratio, row.cpu_ratio) == (4.0, 2.0, 2.0, 1.5)
    results.save(tmp_path / "rows.json")
    assert Row(**json.loads((tmp_path / "rows.json").read_text())[0]) == row
