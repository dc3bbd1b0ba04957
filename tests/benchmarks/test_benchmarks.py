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

import run_all  # noqa: E402
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
            ["--models", "clip-b32", "--parts", "block", "step", "--batch", "2"],
            ("block, forward", "block, both", "step"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "vqascore",
            ["--tiles", "2"],
            ("pairs/s; against every prompt in full", "peak memory, GB"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "startup",
            ["--only", "clip_b32"],
            ("warm; cold", "warm; PyTorch", "cold; PyTorch"),
            marks=pytest.mark.slow,
        ),
        ("matching", [], ("loop", "vectorised numpy", "of scipy's")),
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
    found = {name: {"about": about(), "rows": [row]} for name, row in zip("ab", rows, strict=True)}
    lines = markdown(found).splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## Scoring", "## Whole runs"]
    assert sum(line.startswith("machine ") for line in lines) == 2
    assert "| clip-b32 | images/s | 4.00 | 2.00 | 2.00 | 1.9-2.1 | 1.80 |" in lines
    assert "| clip-b32 | s of the first run, compiling | 12.00 |  |  |  |  |" in lines


def test_what_was_measured_before_stays_in_the_table(tmp_path, monkeypatch):
    def run(name: str, quick: bool) -> list[dict]:
        return [Row(name, "m", f"of {name}", 1.0).__dict__]

    monkeypatch.setattr(run_all, "run", run)
    run_all.main(("matching",), out=tmp_path)
    run_all.main(("scoring",), out=tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert 0 < text.index("of scoring") < text.index("of matching")  # always in the same order
    with pytest.raises(SystemExit, match="no benchmark x"):
        run_all.main(("x",), out=tmp_path)


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
