"""Who takes part, from what launchers put into the environment."""

import pytest

from ttm_jax.errors import InputError
from ttm_jax.hosts import exchange, join, this_host

LAUNCHERS = ("JAX_", "SLURM_", "OMPI_", "TPU_", "KUBERNETES_", "JOB_COMPLETION_INDEX", "TTM_JAX_H")


@pytest.fixture
def environment(monkeypatch):
    """Sets variables in an environment without a launcher."""
    import os

    for name in list(os.environ):
        if name.startswith(LAUNCHERS) and name != "JAX_PLATFORMS":
            monkeypatch.delenv(name)
    return lambda **variables: [monkeypatch.setenv(*item) for item in variables.items()]


@pytest.mark.parametrize(
    ("variables", "single"),
    [
        ({}, False),  # JAX is asked, and finds nothing
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, True),
        ({"SLURM_PROCID": "0"}, True),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, False),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "TPU_WORKER_HOSTNAMES": "a,b"}, False),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "JAX_COORDINATOR_ADDRESS": "a:1"}, False),
    ],
)
def test_one_process_is_recognised_without_asking_jax(environment, variables, single):
    environment(**variables)
    assert join._is_single() == single


def test_an_indexed_job_needs_the_package(environment, monkeypatch):
    environment(KUBERNETES_SERVICE_HOST="10.0.0.1", JOB_COMPLETION_INDEX="1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'jax\[k8s\]'; or --hosts off"):
        join.join()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"JAX_PROCESS_ID": "1"}, "JAX_PROCESS_ID without JAX_COORDINATOR_ADDRESS: set all three"),
        (
            {"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_NUM_PROCESSES": "two"},
            "JAX_NUM_PROCESSES is 'two'; expected a whole number",
        ),
        (
            {
                "JAX_COORDINATOR_ADDRESS": "a:1",
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": "2",
            },
            "JAX_PROCESS_ID is 2, but there are 2 processes",
        ),
    ],
)
def test_contradictory_variables_are_refused(environment, variables, message):
    environment(**variables)
    with pytest.raises(InputError, match=message):
        join.join()


def test_a_coordinator_alone_is_not_enough(environment, monkeypatch):
    def initialize(**told):
        assert told["coordinator_address"] == "a:1"
        raise ValueError("Number of processes must be defined.")

    monkeypatch.setattr("jax.distributed.initialize", initialize)
    environment(JAX_COORDINATOR_ADDRESS="a:1")
    with pytest.raises(InputError, match="set JAX_NUM_PROCESSES, JAX_PROCESS_ID too"):
        join.join()


def test_hosts_that_do_not_come_are_one_line(environment, monkeypatch):
    def initialize(**told):
        assert told["initialization_timeout"] == 7
        raise RuntimeError("DEADLINE_EXCEEDED: only 1 of 2 came\nand more")

    monkeypatch.setattr("jax.distributed.initialize", initialize)
    environment(SLURM_PROCID="0", SLURM_NTASKS="2", TTM_JAX_HOSTS_TIMEOUT="7")
    with pytest.raises(
        InputError, match=r"not found within 7 s; start the same .*DEADLINE_EXCEEDED: only 1"
    ):
        join.join()


def test_a_process_that_uses_jax_already_runs_alone(environment):
    """As in a notebook, and in these tests."""
    environment()
    assert join.join() == 0
    assert join.join("off") == 0
    assert this_host.count() == 1
    assert this_host.is_first()


def test_alone_a_process_decides_for_itself():
    with this_host.alone(writes=False):
        assert (this_host.count(), this_host.is_first(), this_host.is_alone()) == (1, False, True)
        assert exchange.from_all("mine") == ["mine"]
        assert exchange.from_first(lambda: 3) == 3
        exchange.agree_on("anything", 1)
    assert not this_host.is_alone()
