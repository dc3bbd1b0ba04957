"""Every command on broken input: success or one line, nothing half-written, nothing changed.

A case of `broken_inputs.CASES` is a command and the part of its input that is broken. Each mutation
changes one file of it. Most commands run in this process, a sample of them as from a shell.
"""

import gc
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import jax
import pytest
from broken_inputs import CASES, Inputs, adapt_arguments, make_inputs
from mutations import Mutation, mutate

from ttm_jax.cli.main import main
from ttm_jax.training import sharding

# The warnings of a command are printed; here they would be exceptions.
pytestmark = pytest.mark.filterwarnings("default")
FEW, MANY = 3, 120  # of every case, in this process
PROCESSES = ("report: run", "export: run", "adapt, resumed: run", "score: model", "score: npz",
             "evaluate: scores", "adapt: data")  # fmt: skip
MANY_PROCESSES = 12  # of every case
MOST_MEMORY = 3_000_000  # kB of one process; JAX alone takes a sixth of it


@pytest.fixture(scope="module", autouse=True)
def one_device():
    """Compiling for one device takes a fraction of the time."""
    mesh = sharding.make_mesh
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharding, "make_mesh", lambda devices=None: mesh(jax.devices()[:1]))
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Inputs:
    made = make_inputs(tmp_path_factory.mktemp("inputs"))
    with pytest.MonkeyPatch.context() as patch:
        assert run_here(adapt_arguments(made, made.root / "adapted"), patch) == 0
    return made


def run_here(arguments: list[object], patch: pytest.MonkeyPatch) -> int:
    patch.setattr(sys, "argv", ["ttm", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


# A process starts with the memory of the one that it was forked from as its peak. So a small one
# starts the command, and prints the peak last.
_SMALL_PARENT = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
)


def run_process(arguments: list[object], folder: Path) -> tuple[int, str]:
    """Run as from a shell, and check the memory of this one process."""
    command = [sys.executable, "-m", "ttm_jax.cli.main", *map(str, arguments)]
    done = subprocess.run(
        [sys.executable, "-c", _SMALL_PARENT, *command],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
        env={**os.environ, "XLA_FLAGS": ""},
    )
    assert int(done.stdout.split()[-1]) < MOST_MEMORY
    return done.returncode, done.stderr


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def apply(mutation: Mutation) -> None:
    if mutation.content is None:
        mutation.path.unlink()
    else:
        mutation.path.write_bytes(mutation.content)


def check(code: int, errors: str, out: Path, before: dict[Path, bytes] | None, broken: Path):
    """The promise, after a command."""
    lines = errors.splitlines()
    told = [line for line in lines if not line.startswith("warning: ")]
    # Weights may be finite and so large that scores are not: that is not the fault of a file.
    overflow = code == 1 and len(told) == 1 and "not finite" in told[0]
    assert code in (0, 2) or overflow, f"exit code {code}: {errors}"
    assert len(told) <= 1, errors
    assert all(line.startswith("error: ") for line in told), errors
    assert len(told) == (code != 0), errors
    assert len(lines) - len(told) <= 2, errors  # captions that are too long, and a checkpoint
    left = [path for path in out.rglob("*") if path.is_file()]
    assert not [path for path in left if path.name.startswith(".ttm_jax-")], left
    if code == 2:
        assert not left, left
    if before is not None:
        assert contents(broken) == before


def try_case(name, inputs, root, count, run, offset=0) -> Counter[int]:
    """`count` mutations; `run` gives the exit code and what was written to stderr."""
    case, found = CASES[name], Counter[int]()
    for seed in range(offset, offset + count):
        place = root / f"{seed}"
        broken, out = inputs.copy(case.broken, place / "broken"), place / "out"
        out.mkdir()
        mutation = mutate(broken, Random(f"{name} {seed}"))
        apply(mutation)
        before = None if case.writes_into_it else contents(broken)
        try:
            code, errors = run(case.arguments(inputs, broken, out), place)
            check(code, errors, out, before, broken)
        except BaseException as error:
            where = mutation.path.relative_to(broken)
            raise AssertionError(f"{name}, {seed}: {where}, {mutation.how}") from error
        found[code] += 1
    return found


def inside(monkeypatch, capfd):
    """Run in this process; capfd also sees what libraries in C print."""

    def run(arguments, folder):
        monkeypatch.chdir(folder)
        capfd.readouterr()
        code = run_here(arguments, monkeypatch)
        errors = capfd.readouterr().err
        gc.collect()  # what orbax left of a read that failed is reported now, where it is allowed
        return code, errors

    return run


@pytest.mark.parametrize("name", CASES)
def test_a_few(name, inputs, tmp_path, monkeypatch, capfd):
    try_case(name, inputs, tmp_path, FEW, inside(monkeypatch, capfd))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many(name, inputs, tmp_path, monkeypatch, capfd):
    found = try_case(name, inputs, tmp_path, MANY, inside(monkeypatch, capfd), FEW)
    assert found[2] > 0
    with capfd.disabled():
        print(f"\n{name:28} {found[0]:5} accepted {found[2]:5} refused", end="")


@pytest.mark.parametrize("name", PROCESSES)
def test_as_a_process(name, inputs, tmp_path):
    try_case(name, inputs, tmp_path, 1, run_process, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_processes(name, inputs, tmp_path, capfd):
    found = try_case(name, inputs, tmp_path, MANY_PROCESSES, run_process, 1001)
    with capfd.disabled():
        print(f"\n{name:28} {found[0]:5} accepted {found[2]:5} refused, processes", end="")
