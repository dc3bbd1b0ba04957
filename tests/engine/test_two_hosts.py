"""Two processes as two hosts of a pod: the result of one process, checkpoints too."""

import os
import socket
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest
from paths import TESTS
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.engine.ttm import run_ttm

pytestmark = pytest.mark.long

SCRIPT = TESTS / "support" / "two_hosts.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("placement", ["replicated", "sharded"])
def test_two_processes_give_the_result_of_one(tmp_path, placement):
    port = free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(port), str(tmp_path), placement],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_PLATFORMS")},
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)
    first, second = (np.load(tmp_path / f"scores_{rank}.npy") for rank in range(2))
    np.testing.assert_array_equal(first, second)
    config = replace(CONFIG, keep_opt_state=True)
    devices = jax.devices()[:1]
    one = run_ttm(tiny_model("clip"), tiny_dataset(), config, devices=devices)
    np.testing.assert_allclose(first, one.scores, atol=1e-4)
    # One process reads what two have written: the run is found finished, with the same numbers.
    config = replace(config, placement=placement)
    again = run_ttm(tiny_model("clip"), tiny_dataset(), config, tmp_path / "run", devices=devices)
    np.testing.assert_array_equal(again.scores, first)
    assert [r.iteration for r in again.history] == [1, 2, 3]
