"""`ttm data` when it is killed, interrupted, started twice, or has no disk to write to."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import benchmark_layouts as layouts
import disks
import published
import pytest
from local_server import Reply, file_reply
from paths import TESTS

server, origin, root = published.server, published.origin, published.root  # fixtures
small_disk, read_only = disks.small_disk, disks.read_only


# A shell that runs the tests in the background makes them, and so the command, ignore Ctrl-C.
COMMAND = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("ttm_jax.cli.main", run_name="__main__", alter_sys=True)
"""


def command(server, root, *arguments: str, **environment: str) -> subprocess.Popen:
    clean = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "HF_ENDPOINT")}
    return subprocess.Popen(
        [
            *(sys.executable, "-c", COMMAND, "data", *arguments),
            *("--data-dir", str(root), "--sources.hub", server.url),
        ],
        cwd=TESTS.parent,
        env={**clean, "HF_TOKEN": "hf_test", "NO_PROXY": "127.0.0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, error = process.communicate(timeout=120)
    return process.returncode, out, error


class Stuck:
    """Winoground, whose second file comes to a halt after 5,000 bytes."""

    sent = 5_000

    def __init__(self, server, origin) -> None:
        self.server = server
        self.folder = layouts.write_winoground(origin).parent
        published.publish_on_hub(server, self.folder, "winoground", token="hf_test")
        _, second = sorted((self.folder / "data").iterdir())
        self.name = second.name
        self.path = published.file_path("winoground", f"data/{second.name}")
        self.whole = second.read_bytes()
        assert len(self.whole) > 2 * self.sent
        self.hold = threading.Event()
        server.routes[self.path] = lambda _: Reply(
            self.whole, headers={"ETag": '"v1"'}, cut=self.sent, wait=self.hold
        )

    def wait_until_it_is(self, process: subprocess.Popen, root: Path) -> None:
        part = root / "winoground" / "data" / f"{self.name}.part"
        end = time.monotonic() + 120
        while not (part.exists() and part.stat().st_size == self.sent):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)

    def recover(self) -> None:
        self.hold.set()
        self.server.routes[self.path] = lambda request: file_reply(request, self.whole)

    def is_complete(self, root: Path) -> bool:
        return published.tree_of(root / "winoground") == published.tree_of(self.folder)


@pytest.fixture
def stuck(server, origin):
    made = Stuck(server, origin)
    yield made
    made.hold.set()


def test_a_kill_in_the_middle_of_a_note_leaves_nothing_for_good(stuck, root):
    """The note that says which file a part belongs to was written, but not yet renamed."""
    stuck.recover()
    killed = command(
        stuck.server, root, "winoground", TTM_JAX_FAULT_POINT="temporary file written:1"
    )
    assert finish(killed)[0] == -signal.SIGKILL
    assert list((root / "winoground").rglob(".ttm_jax-*"))
    code, _, error = finish(command(stuck.server, root, "winoground"))
    assert (code, error) == (0, "")
    assert stuck.is_complete(root)
    assert list((root / "winoground").rglob(".ttm_jax-*")) == []


def test_ctrl_c_ends_at_once_and_the_next_command_resumes(stuck, root):
    """Although a thread waits for a server that sends nothing."""
    process = command(stuck.server, root, "winoground")
    stuck.wait_until_it_is(process, root)
    process.send_signal(signal.SIGINT)
    code, _, error = finish(process)
    assert (code, error) == (130, "stopping; Ctrl-C again to stop at once\nstopped\n")
    assert not stuck.hold.is_set()
    stuck.recover()
    assert finish(command(stuck.server, root, "winoground"))[0] == 0
    assert stuck.server.asked(stuck.path)[-1]["range"] == f"bytes={stuck.sent}-"
    assert stuck.is_complete(root)


def test_a_second_command_is_refused_until_the_first_is_gone(stuck, root):
    first = command(stuck.server, root, "winoground")
    stuck.wait_until_it_is(first, root)
    code, out, error = finish(command(stuck.server, root, "winoground"))
    assert (code, out) == (2, "")
    assert error == (
        f"error: another `ttm data` is running in {root / 'winoground'}; "
        "wait until it has finished\n"
    )
    first.send_signal(signal.SIGKILL)  # a crash releases the lock
    first.communicate()
    stuck.recover()
    assert finish(command(stuck.server, root, "winoground"))[0] == 0
    assert stuck.is_complete(root)


def test_a_disk_that_is_too_small_and_then_large_enough(stuck, small_disk):
    root = small_disk("60m")
    stuck.recover()
    code, out, error = finish(command(stuck.server, root, "winoground"))
    assert (code, out) == (2, "")
    assert "no space left on the disk (63 MB free)" in error
    assert "rerun the same command to resume" in error
    assert error.count("\n") == 1
    small_disk("200m")
    assert finish(command(stuck.server, root, "winoground"))[0] == 0
    assert stuck.is_complete(root)


def test_a_disk_that_fills_up_on_the_way(server, origin, small_disk):
    """The server does not say how long the file is, so that nobody can know beforehand."""
    root = small_disk("60k")
    folder = layouts.write_winoground(origin).parent
    published.publish_on_hub(server, folder, "winoground")
    first, second = sorted((folder / "data").iterdir())
    whole = {path: path.read_bytes() for path in (first, second)}
    assert sum(map(len, whole.values())) > 70_000
    for path, data in whole.items():
        server.routes[published.file_path("winoground", f"data/{path.name}")] = (
            lambda request, data=data: (
                file_reply(request, data)
                if "range" in request.headers
                else Reply(headers={"ETag": '"v1"'}, stream=[data])
            )
        )
    code, out, error = finish(command(server, root, "winoground"))
    assert (code, out) == (2, "")
    assert "no space left on the disk" in error
    assert error.count("\n") == 1
    assert not (root / "winoground" / "manifest.json").exists()
    small_disk("200m")
    code, _, error = finish(command(server, root, "winoground"))
    assert (code, error) == (0, "")
    assert published.tree_of(root / "winoground") == published.tree_of(folder)


def test_a_disk_that_cannot_be_written(server, origin, read_only):
    root = read_only(True)
    published.publish_on_hub(server, layouts.write_mmvp(origin), "mmvp_vlm")
    code, out, error = finish(command(server, root, "mmvp_vlm"))
    assert (code, out) == (2, "")
    assert f"{root / 'mmvp_vlm'} cannot be written: Read-only file system" in error
    assert error.count("\n") == 1
    read_only(False)
    assert finish(command(server, root, "mmvp_vlm"))[0] == 0
    read_only(True)  # what is there can still be checked
    code, out, error = finish(command(server, root, "mmvp_vlm", "--check"))
    assert (code, error) == (0, "")
    assert "mmvp_vlm: 0 of 270 images have an EXIF orientation other than 1" in out
    assert "mmvp_vlm: 0 of 270 captions occur more than once" in out
