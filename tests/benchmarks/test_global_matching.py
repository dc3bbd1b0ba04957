"""The benchmark of the global assignment runs, and its solvers agree; no time is asserted."""

import os
import subprocess
import sys

import numpy as np
import pytest
from paths import TESTS

ROOT = TESTS.parent


@pytest.mark.long
def test_solvers_agree():
    command = [sys.executable, "benchmarks/global_matching.py", "--dimension", "16"]
    more = ["--sizes", "150", "300", "--equal", "0.2"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run([*command, *more], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr  # not 0 if totals differ
    for text in ("certified", "dense", "CPU time ~ n^", "20% equal captions"):
        assert text in done.stdout
    assert done.stdout.count(" yes ") == 2  # both proved


def test_the_collection_is_like_a_real_one(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from global_matching import collection

    given = collection(1000, 32, equal=0.1)
    assert given.shape == (1000, 1000)
    np.testing.assert_allclose(np.linalg.norm(given.texts, axis=1), 1, atol=1e-5)
    assert len(np.unique(given.texts, axis=0)) <= 901
    close = given.images @ given.images.T - 2 * np.eye(1000)
    assert (close.max(axis=1) > 0.5).mean() > 0.5  # clusters
    hub = np.bincount((given.images @ given.texts.T).argmax(axis=1), minlength=1000)
    assert hub.max() > 5 > 1 / (hub > 0).mean()  # some captions fit many images
