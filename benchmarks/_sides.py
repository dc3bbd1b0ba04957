"""Harness of the benchmarks against PyTorch: two programs in two processes that take turns.

Each side runs in its own process, so that its peak memory can be measured, and works only when it
is told to, so that both have all cores. Turns alternate (A, B, B, A, ...), so that a temporary
slowdown of the machine affects both. This file imports neither jax nor torch.
"""

import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console

from ttm_jax.cli.huge_pages import with_huge_pages

Parts = Mapping[str, Callable[[], Any]]


class Seconds(float):
    """Wall time, with the CPU time that was spent meanwhile."""

    cpu: float = 0.0


def _serve(setup: Callable[..., Parts], args: tuple, connection: Any) -> None:
    """In the child: set up, then run the named part on request and report the time it took."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        parts = setup(*args)
        connection.send(("ready", 0.0, sorted(parts), peak_gb()))
        while (name := connection.recv()) is not None:
            began, busy = time.perf_counter(), time.process_time()
            result = parts[name]()
            spent = time.perf_counter() - began, time.process_time() - busy
            connection.send((*spent, result, peak_gb()))
    except EOFError:  # the parent is gone
        pass
    except BaseException:
        connection.send((None, 0.0, traceback.format_exc(), 0.0))


class Side:
    """A program in its own process: `setup(*args)` returns its parts, `run` runs one of them."""

    def __init__(
        self,
        name: str,
        setup: Callable[..., Parts],
        *args: Any,
        huge_pages: bool = False,
    ) -> None:
        """`huge_pages`: as the commands of this project set them for themselves."""
        self.name, self.peak_gb = name, 0.0
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(setup, args, theirs), daemon=True)
        child = with_huge_pages(dict(os.environ)) if huge_pages else {}
        with mock.patch.dict(os.environ, child):
            self._process.start()
        theirs.close()
        self.parts = self._receive()[2]

    def run(self, part: str) -> tuple[float, Any]:
        """Return the seconds (with their CPU time) and the result of the part."""
        self._connection.send(part)
        wall, cpu, result, self.peak_gb = self._receive()
        seconds = Seconds(wall)
        seconds.cpu = cpu
        return seconds, result

    def close(self) -> None:
        self._connection.send(None)
        self._process.join()

    def _receive(self) -> tuple:
        try:
            message = self._connection.recv()
        except EOFError:
            self._process.join()
            raise SystemExit(
                f"{self.name}: the process ended with code {self._process.exitcode} "
                "(-9 usually means out of memory)"
            ) from None
        if message[0] is None:
            raise SystemExit(f"{self.name} failed:\n{message[2]}")
        return message


def take_turns(sides: list[Side], part: str, repeats: int) -> list[list[Seconds]]:
    """Seconds of every repetition, one list per side. All are included: warm up first."""
    seconds: list[list[Seconds]] = [[] for _ in sides]
    for turn in range(repeats):
        order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
        for index in order:
            seconds[index].append(sides[index].run(part)[0])
    return seconds


def cpu(seconds: Sequence[Seconds]) -> list[float]:
    """The CPU time of every turn: all threads, so a busy machine changes it little."""
    return [turn.cpu for turn in seconds]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times faster we are: the median over pairs of neighbouring turns."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def spread(ours: Sequence[float], theirs: Sequence[float]) -> str:
    ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    return f"{ratios[0]:.2f}-{ratios[-1]:.2f}"


def peak_gb() -> float:
    """Peak memory of this process in GB (2**30 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """One line that describes the machine and its load."""
    name, memory = platform.processor() or platform.machine(), 0
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            memory = round(int(line.split()[1]) / 2**20)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return (
        f"{cores()} cores of {name}, {memory} GB, Python {platform.python_version()}; "
        f"load before: {load:.1f}"
    )


def make_console() -> Console:
    """A console wide enough for the tables, even without a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=110)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
