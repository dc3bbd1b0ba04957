"""Atomic writing, what a killed process leaves behind, and reading within bounds."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from paths import TESTS

from ttm_jax import files
from ttm_jax.errors import InputError, one_line

HANGING = """
import sys, time
from pathlib import Path
from ttm_jax import files

def fill(file):
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)

target = Path(sys.argv[1])
if sys.argv[2] == "file":
    files.write_atomic(target, fill)
else:
    with files.temporary_folder(target.parent) as draft:
        with (draft / "inside").open("wb") as file:
            fill(file)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def hanging(tmp_path):
    """hanging("file"): a process that is in the middle of writing to tmp_path/target."""
    started = []

    def start(kind: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HANGING, str(tmp_path / "target"), kind],
            cwd=TESTS.parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.fixture(autouse=True)
def _nothing_was_cleaned_yet(monkeypatch):
    monkeypatch.setattr(files, "_cleaned", set())


def test_a_written_file_has_the_usual_rights_and_nothing_is_left(tmp_path):
    mask = os.umask(0o027)
    try:
        files.write_json(tmp_path / "deep" / "a.json", {"a": 1})
    finally:
        os.umask(mask)
    assert names(tmp_path / "deep") == ["a.json"]
    assert (tmp_path / "deep" / "a.json").stat().st_mode & 0o777 == 0o640
    assert files.read_json(tmp_path / "deep" / "a.json") == {"a": 1}


def test_an_error_while_writing_keeps_the_old_file(tmp_path):
    files.write_text(tmp_path / "a", "old")

    def fail(file):
        file.write(b"new")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.write_atomic(tmp_path / "a", fail)
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_leaves_is_removed_by_the_next_write(tmp_path, hanging, kind):
    process = hanging(kind)
    kill(process)
    (left,) = names(tmp_path)
    assert left.startswith(".ttm_jax-")
    assert f"-{process.pid}-" in left
    files.write_text(tmp_path / "another", "text")
    assert names(tmp_path) == ["another"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_living_process_writes_stays(tmp_path, hanging, kind):
    hanging(kind)
    (draft,) = names(tmp_path)
    files.write_text(tmp_path / "another", "text")
    assert names(tmp_path) == sorted([draft, "another"])
    # Even if nobody can ask for its process, as on another machine: it holds a lock.
    elsewhere = tmp_path / draft.replace(files._HOST, "0" * 8)
    (tmp_path / draft).rename(elsewhere)
    _make_old(elsewhere)
    files.remove_leftovers(tmp_path)
    assert elsewhere.exists()


def _make_old(path: Path) -> None:
    before = time.time() - 2 * files._ABANDONED
    os.utime(path, (before, before))


def _dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_other_machines_are_given_an_hour(tmp_path):
    path = tmp_path / f".ttm_jax-{0:08x}-{_dead_process()}-{0:016x}.tmp"
    path.write_bytes(b"x")
    files.remove_leftovers(tmp_path)
    assert path.exists()
    _make_old(path)
    files.remove_leftovers(tmp_path)
    assert not path.exists()


def test_a_process_id_that_was_given_to_another_process_is_given_an_hour(tmp_path):
    path = tmp_path / f".ttm_jax-{files._HOST}-{os.getppid()}-{0:016x}.tmp"
    path.write_bytes(b"x")
    files.remove_leftovers(tmp_path)
    assert path.exists()
    _make_old(path)
    files.remove_leftovers(tmp_path)
    assert not path.exists()


def test_only_our_own_names_are_removed(tmp_path):
    dead = _dead_process()
    kept = [
        f".ttm_jax-{files._HOST}-{dead}-{0:016x}",
        f".ttm_jax-{files._HOST}-{dead}-{0:016x}.tmp.bak",
        f"ttm_jax-{files._HOST}-{dead}-{0:016x}.tmp",
        ".hidden.tmp",
        ".ttm_jax-notes.tmp",
    ]
    for name in kept:
        (tmp_path / name).write_bytes(b"x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    link = tmp_path / f".ttm_jax-{files._HOST}-{dead}-{1:016x}.tmp"
    link.symlink_to(outside)
    files.remove_leftovers(tmp_path)
    assert set(names(tmp_path)) == {*kept, "outside", link.name}
    assert (outside / "precious").exists()


def test_a_folder_that_is_not_there_has_no_leftovers(tmp_path):
    files.remove_leftovers(tmp_path / "none")


def test_a_temporary_folder_goes_with_its_contents_or_is_renamed(tmp_path):
    with files.temporary_folder(tmp_path) as draft:
        (draft / "a").write_text("x")
    assert names(tmp_path) == []
    with files.temporary_folder(tmp_path) as draft:
        (draft / "a").write_text("x")
        draft.rename(tmp_path / "done")
    assert names(tmp_path) == ["done"]
    assert names(tmp_path / "done") == ["a"]


# --- reading


def test_pipes_sockets_devices_and_folders_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    for path in (tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero"), Path("/dev/tty")):
        with pytest.raises(InputError, match=r"cannot be read: it is a pipe, a socket or a device"):
            files.read_json(path)
        assert files.file_problem(path).startswith("cannot be read: it is a pipe")
    listener.close()
    with pytest.raises(InputError, match="cannot be read: it is a folder"):
        files.read_json(tmp_path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none", "does not exist"),
        ("n" * 300, "cannot be read: File name too long"),
        ("a\0b", "is not a file name"),
        ("half \ud800", "is not a file name"),
        ("file/inside", "does not exist"),
        ("empty", "is empty"),
        ("file", None),
    ],
)
def test_problems_of_names(tmp_path, name, problem):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").write_text("")
    assert files.file_problem(tmp_path / name) == problem


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"is not JSON: Expecting"),
        (b"\xff", r"is not JSON: .*can't decode"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, r"is not JSON: Exceeds the limit"),
        (b"", r"is not JSON: Expecting value"),
    ],
)
def test_json_that_is_none(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        files.read_json(tmp_path / "a.json")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole of a terabyte
    with pytest.raises(InputError, match=r"it has 1099511627776 bytes, at most 268435456 are read"):
        files.read_json(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("[1, 2, 3]")
    monkeypatch.setenv("TTM_JAX_MAX_LIST_BYTES", "5")
    with pytest.raises(InputError, match=r"at most 5 are read; TTM_JAX_MAX_LIST_BYTES"):
        files.read_json(tmp_path / "b.json")


def test_messages_are_one_printable_line():
    assert one_line("plain text, ä, 図") == "plain text, ä, 図"
    assert one_line("a\nb\r\tc\x1b[2J\0") == r"a\nb\r\tc\x1b[2J\x00"
    assert one_line("\u2028\u202e\ud800") == r"\u2028\u202e\ud800"
    assert len(str(InputError("x" * 10**6))) < 5000
    assert str(InputError("two\nlines")) == r"two\nlines"
    str(InputError("half \ud800")).encode()


def test_the_host_in_a_name_is_this_one():
    from platform import node

    assert int(files._HOST, 16) == zlib.crc32(node().encode())
