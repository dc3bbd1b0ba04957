"""Small and read-only disks: fixtures `small_disk` and `read_only`, where mounting is allowed."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


def _mount(*arguments: str) -> bool:
    command = shutil.which("mount")
    if command is None:
        return False
    return subprocess.run([command, *arguments], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """small_disk("2m") -> an empty folder on a disk of that size; call it again to resize it.

    `files` is how many files and folders fit on it.
    """
    folder = tmp_path / "disk"

    def make(size: str, files: int = 100_000) -> Path:
        if folder.exists():
            assert _mount("-o", f"remount,size={size}", str(folder))
            return folder
        folder.mkdir()
        if not _mount("-t", "tmpfs", "-o", f"size={size},nr_inodes={files}", "tmpfs", str(folder)):
            folder.rmdir()
            pytest.skip("mounting a small disk is not allowed here")
        return folder

    yield make
    if folder.exists():
        subprocess.run(["umount", str(folder)], check=True)


def fill_space(disk: Path, free: int) -> Path:
    """Fill the disk but for so many bytes; returns the file to remove."""
    state = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(state.f_bavail * state.f_frsize - free))
    return ballast


def fill_files(disk: Path, free: int) -> Path:
    """Make files until only so many more can be made; returns their folder."""
    ballast = disk / "ballast"
    ballast.mkdir()
    made: list[Path] = []
    while True:
        try:
            (ballast / str(len(made))).touch()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            break
        made.append(ballast / str(len(made)))
    for path in made[len(made) - free :]:
        path.unlink()
    return ballast


@pytest.fixture
def read_only(small_disk) -> Callable[[bool], Path]:
    """read_only(True) -> the small disk, now read-only."""

    def set_mode(is_read_only: bool) -> Path:
        folder = small_disk("100m")
        assert _mount("-o", f"remount,{'ro' if is_read_only else 'rw'}", str(folder))
        return folder

    return set_mode
