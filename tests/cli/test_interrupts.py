"""Ctrl-C while the main thread is inside a library: acknowledged at once, obeyed within seconds."""

import os
import signal
import subprocess
import sys

import pytest

# Python's own handler does nothing, as while the main thread is inside XLA and compiles.
STUCK = """
import signal, threading
from ttm_jax.cli import interrupts
from ttm_jax.cli.exit_codes import run

interrupts.PATIENCE = PATIENCE_HERE

def work():
    signal.signal(signal.SIGINT, lambda number, frame: None)
    print("ready", flush=True)
    threading.Event().wait()

run(work)
"""
# The same during a run that has taken steps since its last checkpoint.
TRAINING = """
import hashlib
from ttm_jax.cli import interrupts
from ttm_jax.cli.exit_codes import run
from ttm_jax.runs.signals import StopFlag

interrupts.PATIENCE = 0.0

def work():
    with StopFlag() as stop:
        stop.steps_taken = True
        print("ready", flush=True)
        while not stop.is_set():
            hashlib.pbkdf2_hmac("sha256", b"a", b"b", 200_000)
        print("saved", flush=True)
        raise stop.error(None)

run(work)
"""
# The exception is raised where Python drops it, as in JAX's callback of the garbage collector.
SWALLOWED = """
import signal, threading
from ttm_jax.cli import interrupts
from ttm_jax.cli.exit_codes import run

interrupts.PATIENCE = 3600.0

class Swallows:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def work():
    print("ready", flush=True)
    Swallows()
    threading.Event().wait()

run(work)
"""
# A module that answers any failure of its own imports with another error, as extensions do.
IMPORTING = """
import sys
from pathlib import Path
from ttm_jax.cli.exit_codes import run

folder = Path(PLACE)
(folder / "inner.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
(folder / "outer.py").write_text(
    "try:\\n    import inner\\nexcept BaseException:\\n    raise ImportError('broken')"
)
sys.path.insert(0, str(folder))

def work():
    print("ready", flush=True)
    import outer

run(work)
"""
# A farewell that would not end well, as JAX's does not while XLA still compiles.
FAREWELL = """
import atexit, os, signal
from ttm_jax.cli.exit_codes import run

def work():
    atexit.register(os._exit, 99)
    print("ready", flush=True)
    print("not flushed yet", end="")
    signal.raise_signal(signal.SIGINT)

run(work)
"""


# A shell lets its background jobs ignore Ctrl-C, and the tests may be one.
AT_A_TERMINAL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


@pytest.fixture
def start():
    processes = []

    def run(code: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", AT_A_TERMINAL + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
        )
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def test_acknowledged_at_once_and_obeyed(start):
    process = start(STUCK.replace("PATIENCE_HERE", "0.1"))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    first, second = said.splitlines()
    assert first.startswith("stopping")
    assert second.startswith("stopped; rerun")
    assert process.returncode == 130


def test_a_second_time_stops_at_once(start):
    process = start(STUCK.replace("PATIENCE_HERE", "3600"))
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("stopping")
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=300)
    assert rest == "stopped at once\n"
    assert process.returncode == 130


def test_steps_that_would_be_lost_are_saved_first(start):
    process = start(TRAINING)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert out == "saved\n"
    assert "stopped by SIGINT" in err
    assert process.returncode == 128 + signal.SIGINT


def test_an_exception_that_python_drops_is_raised_again(start):
    process = start(SWALLOWED)
    _, said = process.communicate(timeout=300)
    first, second = said.splitlines()
    assert first.startswith("stopping")
    assert second == "stopped"
    assert process.returncode == 130


def test_nothing_is_torn_down(start):
    process = start(FAREWELL)
    out = process.stdout.read()  # what came together with "ready", too
    first, second = process.stderr.read().splitlines()
    process.wait(timeout=300)
    assert first.startswith("stopping")
    assert second == "stopped"
    assert out == "not flushed yet"
    assert process.returncode == 130


def test_inside_an_import(start, tmp_path):
    process = start(IMPORTING.replace("PLACE", repr(str(tmp_path))))
    _, said = process.communicate(timeout=300)
    first, second = said.splitlines()
    assert first.startswith("stopping")
    assert second == "stopped"
    assert process.returncode == 130
