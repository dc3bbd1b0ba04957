"""Runs in separate processes (killable_run.py), and a comparison of two run folders."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
from killable_run import CONFIG
from paths import TESTS
from tiny import tiny_dataset, tiny_model

from ttm_jax.config import TTMConfig
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.files import read_lines
from ttm_jax.runs.checkpoints import read_arrays
from ttm_jax.training.trainable import split_params, variables

SCRIPT = TESTS / "support" / "killable_run.py"
# Programs compiled by the first process are reused by the others.
CACHE = {
    "JAX_COMPILATION_CACHE_DIR": tempfile.mkdtemp(),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    # For every program from the cache, XLA names the features of the CPU: more than a pipe holds.
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def start(folder: Path, keep: bool = False, **variables: str) -> subprocess.Popen:
    """Start the run in a process; it prints one line per step."""
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), *(["keep"] if keep else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **CACHE, **variables},
    )


def run_here(folder: Path, keep: bool = False) -> None:
    """The same run in this process."""
    config = TTMConfig(**{**CONFIG.__dict__, "keep_opt_state": keep})
    run_ttm(tiny_model(), tiny_dataset(), config, folder, seed=3, devices=jax.devices()[:1])


def stop_after(process: subprocess.Popen, steps: int, number: int) -> int:
    """Read `steps` lines of progress, send the signal, return the exit code."""
    assert process.stdout is not None
    for _ in range(steps):
        if not process.stdout.readline():
            break
    process.send_signal(number)
    process.communicate(timeout=120)
    return process.returncode


def final_params(folder: Path):
    split = split_params(tiny_model().params, "all")
    return read_arrays(folder / "checkpoints", variables(split.trained, split.frozen))


def assert_same_run(folder: Path, whole: Path) -> None:
    """Same ledger, matchings, scores, losses and parameters, bit for bit."""
    for name in ("ledger.jsonl", "matchings.jsonl", "config.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    for path in (whole / "scores").iterdir():
        with np.load(path) as a, np.load(folder / "scores" / path.name) as b:
            np.testing.assert_array_equal(a["scores"], b["scores"])
    jax.tree.map(np.testing.assert_array_equal, final_params(folder), final_params(whole))
    rows = [list(read_lines(f / "metrics.jsonl")) for f in (folder, whole)]
    for ours, theirs in zip(*rows, strict=True):
        assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}
    assert (folder / "summary.json").exists()
