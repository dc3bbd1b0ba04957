"""The benchmarks run, and their two sides agree; no time is asserted."""

import json
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from paths import TESTS

pytest.importorskip("torch")
ROOT = TESTS.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import run_all  # noqa: E402
from _results import Results, Row, about, markdown  # noqa: E402
from _sides import Seconds  # noqa: E402
from step_breakdown import (  # noqa: E402
    KINDS,
    MOVES,
    PRODUCTS,
    UPDATE,
    VALUES,
    added,
    torch_kind,
    xla_kinds,
)


@pytest.mark.long
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
            "step_breakdown",
            ["--models", "clip-b32"],
            ("matrix products: s", "AdamW: s", "wall: s", "temporary memory, GB"),
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


def test_operations_of_a_compiled_step_are_told_apart():
    """Every instruction that a trace can name has a kind; loops are not counted twice."""

    @jax.jit
    def step(x, w):
        y = jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w), x)
        with jax.named_scope("AdamW"):
            new = w - 0.1 * jnp.sign(w)
        return y.T.copy(), new

    text = step.lower(jnp.ones((64, 64)), jnp.ones((64, 64))).compile().as_text()
    kinds = xla_kinds(text)
    assert set(kinds.values()) == set(KINDS)
    loops = re.findall(r"%([\w.\-]+) = \(.*\) while\(", text)
    assert len(loops) == 1
    assert not kinds.keys() & set(loops)
    assert {kinds[name] for name in kinds if name.startswith("dot")} == {PRODUCTS}
    assert {kinds[name] for name in kinds if name.startswith("tanh")} == {VALUES}


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::addmm", PRODUCTS),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", PRODUCTS),
        ("aten::gelu_backward", VALUES),
        ("aten::native_layer_norm", VALUES),
        ("aten::copy_", MOVES),
        ("aten::embedding_dense_backward", MOVES),
        ("Optimizer.step#AdamW.step", UPDATE),
    ],
)
def test_operators_of_pytorch_are_told_apart(operator, kind):
    assert torch_kind(operator) == kind


def test_seconds_are_added_by_kind_and_containers_are_left_out():
    assert added([(PRODUCTS, 1.0), (None, 5.0), (PRODUCTS, 0.5)]) == {PRODUCTS: 1.5}
