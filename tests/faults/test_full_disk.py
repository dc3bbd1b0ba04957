"""A disk that is full or read-only: one line, nothing lost, and the same command resumes."""

import shutil
import signal

import pytest
from disks import fill_files, fill_space, read_only, small_disk
from same_run import assert_same_run, run_here, start

from ttm_jax.fault_points import VARIABLE

pytestmark = pytest.mark.long

__all__ = ["read_only", "small_disk"]  # fixtures

# What is left on the disk when iteration 2 begins. Its lines and scores need some kilobytes, its
# checkpoint about 250 kB and 40 files.
BYTES = (0, 4_000, 8_000, 16_000, 50_000, 100_000, 150_000, 200_000, 220_000, 240_000, 300_000)
FILES = (0, 1, 2, 3, 5, 8, 12, 16, 20, 25, 30)
QUICK = {100_000, 5}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_here(folder)
    return folder


@pytest.fixture(scope="module")
def after_iteration_1(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "run"
    process = start(folder, **{VARIABLE: "checkpoints saved:2"})
    process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL
    return folder


def quick(values):
    return [v if v in QUICK else pytest.param(v, marks=pytest.mark.slow) for v in values]


def checkpoints(folder):
    """Every file below checkpoints/, with its content."""
    files = (path for path in (folder / "checkpoints").rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}


def refuses(folder) -> str:
    """Run there; returns the one line that it says."""
    process = start(folder)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 2, errors
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    return line


def full(disk, fill, free, stopped, undisturbed):
    folder = shutil.copytree(stopped, disk / "run")
    before = checkpoints(folder)
    ballast = fill(disk, free)
    line = refuses(folder)
    assert "No space left" in line
    assert str(folder) in line
    assert checkpoints(folder) == before
    if ballast.is_dir():
        shutil.rmtree(ballast)
    else:
        ballast.unlink()
    run_here(folder)
    assert_same_run(folder, undisturbed)


@pytest.mark.parametrize("free", quick(BYTES))
def test_no_space(small_disk, after_iteration_1, undisturbed, free):
    full(small_disk("8m"), fill_space, free, after_iteration_1, undisturbed)


@pytest.mark.parametrize("free", quick(FILES))
def test_no_more_files(small_disk, after_iteration_1, undisturbed, free):
    full(small_disk("8m", files=400), fill_files, free, after_iteration_1, undisturbed)


def test_read_only(read_only, after_iteration_1):
    disk = read_only(False)
    folder = shutil.copytree(after_iteration_1, disk / "run")
    read_only(True)
    before = checkpoints(folder)
    assert "Read-only file system" in refuses(folder)
    assert checkpoints(folder) == before
