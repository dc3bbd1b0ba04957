"""The same command in several processes, as on the hosts of a pod."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from paths import TESTS

ROOT = TESTS.parent
DEVICES = 2  # virtual ones of each process
_LEFT_OUT = ("XLA_FLAGS", "JAX_PLATFORMS", "TTM_JAX_FAULT_POINT")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


class Pod:
    """`hosts` processes of a command: ("mmvp_siglip", "--small") or ("adapt", ...)."""

    def __init__(
        self,
        hosts: int,
        *command: object,
        folders: list[Path] | None = None,
        fault: dict[int, str] | None = None,
        more: dict[int, list[str]] | None = None,
        **variables: str,
    ) -> None:
        port = free_port()
        self.processes = []
        for host in range(hosts):
            environment = environment_of(port, hosts, host) | variables
            if fault and host in fault:
                environment["TTM_JAX_FAULT_POINT"] = fault[host]
            self.processes.append(
                subprocess.Popen(
                    [*words(*command), *(more or {}).get(host, [])],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=None if folders is None else folders[host],
                    env=environment,
                )
            )

    def wait(self, seconds: float = 300) -> list[Ended]:
        """How all of them ended; those that have not by then are killed, and the test fails."""
        try:
            texts = [process.communicate(timeout=seconds) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
        return [
            Ended(process.returncode, *text)
            for process, text in zip(self.processes, texts, strict=True)
        ]


def words(name: object, *rest: object) -> list[str]:
    if name == "adapt":
        start = [sys.executable, "-m", "ttm_jax.cli.main", "adapt"]
    else:
        start = [sys.executable, "-m", f"experiments.{name}"]
    return [*start, *map(str, rest)]


def environment_of(port: int, hosts: int, host: int) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    found |= {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES} "
        "--xla_backend_optimization_level=0",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "COLUMNS": "160",
    }
    if hosts > 1:
        found |= {
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
            "JAX_NUM_PROCESSES": str(hosts),
            "JAX_PROCESS_ID": str(host),
        }
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
