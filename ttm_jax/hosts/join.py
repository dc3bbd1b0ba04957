"""How the processes that a user starts on several hosts find each other and become one program."""

import os
import sys
from typing import Any, Literal

from ttm_jax.errors import InputError
from ttm_jax.hosts.output import Voice, as_usual, before_abort

Hosts = Literal["auto", "off"]

# JAX reads the first by itself; launchers and its documentation use the other two names as well.
_ADDRESS, _COUNT, _INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
_TIMEOUT = "TTM_JAX_HOSTS_TIMEOUT"
_OFF = "--hosts off runs on this host alone"


def join(hosts: Hosts = "auto") -> int:
    """Form one program with the same command on other hosts, if there are any.

    Must come before anything else asks JAX for devices. Afterwards only the first host prints.

    Args:
        hosts: "auto" finds the others as `jax.distributed.initialize()` does (Cloud TPU, SLURM,
            Open MPI, Kubernetes), or from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
            JAX_PROCESS_ID. "off" does not look for any.

    Returns:
        The number of this host; 0 for the first, or if there are no others.

    Raises:
        InputError: Other hosts were announced but not found, or they run another command.
    """
    if hosts == "off" or _is_single():
        return 0
    import jax

    if jax.distributed.is_initialized() or not _initialize(_told()):
        return 0
    if jax.process_count() == 1:
        return 0
    from ttm_jax.hosts import watch
    from ttm_jax.hosts.exchange import agree_on

    watch.start()
    agree_on("versions", _versions())
    agree_on("arguments", " ".join(sys.argv[1:]))
    return jax.process_index()


def _told() -> dict[str, Any]:
    """What the environment says about the other hosts."""
    told: dict[str, Any] = {}
    if os.environ.get(_ADDRESS):
        told["coordinator_address"] = os.environ[_ADDRESS]
    for variable, name in ((_COUNT, "num_processes"), (_INDEX, "process_id")):
        text = os.environ.get(variable)
        if not text:
            continue
        if not text.isdecimal():
            raise InputError(f"{variable} is {text!r}; expected a whole number")
        told[name] = int(text)
    if told and "coordinator_address" not in told:
        given = " and ".join(v for v in (_COUNT, _INDEX) if os.environ.get(v))
        raise InputError(f"{given} without {_ADDRESS}: set all three, or none")
    if len(told) == 3 and told["process_id"] >= told["num_processes"]:
        raise InputError(
            f"{_INDEX} is {told['process_id']}, but there are {told['num_processes']} processes "
            f"({_COUNT}); expected 0 to {told['num_processes'] - 1}"
        )
    return told


def _is_single() -> bool:
    """Whether the environment says that there is one process, so that JAX need not be asked.

    With one task, JAX would still restrict a SLURM or MPI process to its first GPU.
    """
    environment = os.environ
    if environment.get(_ADDRESS) or environment.get(_COUNT) or environment.get(_INDEX):
        return False
    if "OMPI_COMM_WORLD_SIZE" in environment:
        return environment["OMPI_COMM_WORLD_SIZE"] == "1"
    if "SLURM_PROCID" in environment:
        return environment.get("SLURM_NTASKS", "1") == "1"
    tpu = "TPU_WORKER_HOSTNAMES" in environment or "TPU_PROCESS_ADDRESSES" in environment
    if "KUBERNETES_SERVICE_HOST" in environment and not tpu:
        # JAX forms a program of an indexed Job, and fails in any other pod.
        return "JOB_COMPLETION_INDEX" not in environment or not _has_kubernetes()
    return False


def _has_kubernetes() -> bool:
    """Whether JAX can ask Kubernetes; an error if it would have to and cannot."""
    from importlib.util import find_spec

    if find_spec("kubernetes") is None:
        raise InputError(
            "this is a pod of an indexed Kubernetes job, and JAX needs a package to find the "
            f"others: pip install 'jax[k8s]'; or {_OFF}"
        )
    return True


def _initialize(told: dict[str, Any]) -> bool:
    """Whether there is a program of several processes, or could be."""
    import jax

    seconds = timeout()
    missing = (
        f"the other hosts were not found within {seconds} s; start the same command on all of them "
        f"({_TIMEOUT} changes the time), or {_OFF}"
    )
    voice = Voice()

    def leave() -> None:
        voice.say(f"error: {missing}")
        os._exit(2)

    before_abort(leave)  # where JAX does not come back with an error
    try:
        jax.distributed.initialize(**told, initialization_timeout=seconds)
    except ValueError as error:
        if not told:
            return False  # JAX has not found a cluster
        unset = ", ".join(v for v in (_COUNT, _INDEX) if not os.environ.get(v))
        said = f"set {unset} too" if unset else str(error)
        raise InputError(f"{_ADDRESS} is set, but the hosts are not known: {said}") from error
    except Exception as error:
        if not told and "must be called before" in str(error):
            return False  # JAX is in use already, as in a notebook
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"{missing}: {lines[0][:300]}") from error
    finally:
        as_usual()
    return True


def timeout() -> int:
    """Seconds to wait for the other hosts."""
    text = os.environ.get(_TIMEOUT, "300")
    if not text.isdecimal() or not int(text):
        raise InputError(f"{_TIMEOUT} is {text!r}; expected a whole number of seconds")
    return int(text)


def _versions() -> dict[str, str]:
    from importlib import metadata

    packages = ("ttm_jax", "jax", "jaxlib", "numpy", "pillow")
    found = {name: metadata.version(name) for name in packages}
    return {"python": ".".join(map(str, sys.version_info[:2])), **found}
