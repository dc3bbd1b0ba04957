"""Commands as real processes: how long they take, and how much memory at most."""

import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL = 0.1  # seconds


@dataclass(frozen=True)
class Finished:
    command: str
    """As a user types it."""
    seconds: float
    peak_gb: float
    code: int
    """Negative: ended by this signal."""
    events: dict[str, float]
    """Seconds from the start until each event was seen."""


def run(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    *,
    events: Mapping[str, Callable[[], bool]] | None = None,
    kill_at: str | None = None,
) -> Finished:
    """Run to the end, or until the event `kill_at` is seen: then the process gets SIGKILL.

    Both outputs go to `log`. The peak is that of the kernel's accounting of the ended child.
    """
    began, seen = time.monotonic(), dict[str, float]()
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(words)}\n".encode())
        output.flush()
        process = subprocess.Popen(
            _executable(words), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=output, stderr=output,
        )  # fmt: skip
        killed = False
        try:
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                for name, happened in (events or {}).items():
                    if name not in seen and happened():
                        seen[name] = time.monotonic() - began
                if kill_at in seen and not killed:
                    process.kill()
                    killed = True
                time.sleep(_POLL)
        except BaseException:  # Ctrl-C: leave no process behind
            process.kill()
            process.wait()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)  # it was waited for here
    seconds = time.monotonic() - began
    return Finished(shlex.join(words), seconds, peak_gb(usage), process.returncode, seen)


def peak_gb(usage: resource.struct_rusage) -> float:
    """In GB of 2**30 bytes."""
    return usage.ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


def _executable(words: Sequence[str]) -> list[str]:
    """`python` and `ttm` of this environment, whatever the search path says."""
    match words:
        case ["python", *rest]:
            return [sys.executable, *rest]
        case ["ttm", *rest]:
            return [sys.executable, "-c", "from ttm_jax.cli.main import main; main()", *rest]
    return list(words)


def folder_gb(path: Path) -> float:
    """Size of all files below a folder, or of a file, in GB (1e9 bytes)."""
    if path.is_file():
        return path.stat().st_size / 1e9
    files = (p for p in path.rglob("*") if p.is_file() and not p.is_symlink())
    return sum(p.stat().st_size for p in files) / 1e9
