"""Real signals to a real process: what is resumed ends as if nothing had happened, bit for bit."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from killable_run import CONFIG
from tiny import tiny_dataset, tiny_model

from ttm_jax.checkpoint import Checkpoints
from ttm_jax.config import TTMConfig
from ttm_jax.files import read_lines
from ttm_jax.trainable import split_params, variables
from ttm_jax.ttm import run_ttm

SCRIPT = Path(__file__).parent / "killable_run.py"
# What the first process has compiled, the others need not.
CACHE = {
    "JAX_COMPILATION_CACHE_DIR": tempfile.mkdtemp(),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}


def start(folder: Path, keep: bool) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), *(["keep"] if keep else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **CACHE},
    )


def stop_after(process: subprocess.Popen, steps: int, number: int) -> int:
    """Read `steps` lines of progress, send the signal, return the exit code."""
    assert process.stdout is not None
    for _ in range(steps):
        if not process.stdout.readline():
            break
    process.send_signal(number)
    process.communicate(timeout=120)
    return process.returncode


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Both kinds of run, made in this process: other code path, same numbers."""
    folders = {}
    for keep in (False, True):
        folders[keep] = tmp_path_factory.mktemp("whole") / "run"
        config = TTMConfig(**{**CONFIG.__dict__, "keep_opt_state": keep})
        devices = jax.devices()[:1]
        run_ttm(tiny_model(), tiny_dataset(), config, folders[keep], seed=3, devices=devices)
    return folders


def final_params(folder: Path):
    split = split_params(tiny_model().params, "all")
    checkpoints = Checkpoints(folder / "checkpoints")
    tree = checkpoints.restore(variables(split.trained, split.frozen))
    checkpoints.close()
    return tree


def assert_same_run(folder: Path, whole: Path):
    ledger = "ledger.jsonl"
    assert (folder / ledger).read_bytes() == (whole / ledger).read_bytes()
    assert (folder / "matchings.jsonl").read_bytes() == (whole / "matchings.jsonl").read_bytes()
    for path in (whole / "scores").iterdir():
        with np.load(path) as a, np.load(folder / "scores" / path.name) as b:
            np.testing.assert_array_equal(a["scores"], b["scores"])
    jax.tree.map(np.testing.assert_array_equal, final_params(folder), final_params(whole))
    rows = [list(read_lines(f / "metrics.jsonl")) for f in (folder, whole)]
    assert [r.get("losses") for r in rows[0]] == [r.get("losses") for r in rows[1]]


@pytest.mark.parametrize("keep", [False, True])
def test_sigkill_at_random_moments(tmp_path, undisturbed, keep):
    folder = tmp_path / "run"
    rng = random.Random(f"kill {keep}")
    for _ in range(1 + keep):
        code = stop_after(start(folder, keep), rng.randint(1, 45), signal.SIGKILL)
        assert code == -signal.SIGKILL
    assert not (folder / "summary.json").exists()
    process = start(folder, keep)
    process.communicate(timeout=240)
    assert process.returncode == 0
    assert_same_run(folder, undisturbed[keep])


def test_sigterm_saves_in_the_middle_of_an_iteration(tmp_path, undisturbed):
    folder = tmp_path / "run"
    process = start(folder, True)
    code = stop_after(process, 5, signal.SIGTERM)
    assert code == 128 + signal.SIGTERM
    assert list((folder / "interrupted").iterdir())
    process = start(folder, True)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    assert int(output.splitlines()[0].split()[1]) > 5  # it did not begin the iteration again
    assert_same_run(folder, undisturbed[True])
