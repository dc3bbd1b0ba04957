"""What a server, a network or a disk can refuse, where a token goes, and several files at once."""

import errno
import hashlib
import io
import itertools
import random
import socket
from collections import namedtuple

import pytest
from local_server import Reply, file_reply, running_server

from ttm_jax.data.download import fetch as fetch_module
from ttm_jax.data.download.checksum import Checksum, file_digest
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import (
    AccessDenied,
    DownloadError,
    Patience,
    open_url,
)
from ttm_jax.data.download.options import Job, Options, fetch_all
from ttm_jax.data.download.progress import Progress
from ttm_jax.errors import InputError

BODY = random.Random(0).randbytes(1 << 20)  # no part of it looks like another
SHA256 = Checksum("sha256", hashlib.sha256(BODY).hexdigest())
QUICK = Patience(tries=3, pause=0.0)


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as server:
        yield server


@pytest.fixture
def target(tmp_path):
    return tmp_path / "sub" / "file.bin"


def _left(target):
    return sorted(path.name for path in target.parent.iterdir())


@pytest.mark.parametrize(
    ("status", "kind", "message", "requests"),
    [
        (401, AccessDenied, r"not given to us \(401", 1),
        (403, AccessDenied, r"not given to us \(403", 1),
        (404, DownloadError, r"does not exist \(404\)", 1),
        (400, DownloadError, "answers 400", 1),
        (429, DownloadError, r"answers 429 .*\(tried 3 times\)", 3),
        (503, DownloadError, r"answers 503 .*\(tried 3 times\)", 3),
    ],
)
def test_statuses(server, target, status, kind, message, requests):
    server.routes["/file"] = lambda _: Reply(b"", status)
    with pytest.raises(kind, match=message):
        fetch(f"{server.url}/file", target, patience=QUICK)
    assert len(server.seen) == requests
    assert not target.exists()


def test_a_server_that_recovers(server, target):
    replies = iter([Reply(b"", 503), Reply(b"", 500)])
    server.routes["/file"] = lambda request: next(replies, None) or file_reply(request, BODY)
    fetch(f"{server.url}/file", target, checksum=SHA256, patience=QUICK)
    assert target.read_bytes() == BODY


def test_a_web_page_is_not_the_file(server, target):
    """What hotels and Google send with status 200."""
    server.serve("/file", b"<html>please log in</html>", **{"Content-Type": "text/html; charset=x"})
    with pytest.raises(DownloadError, match="web page instead of the file"):
        fetch(f"{server.url}/file", target)
    assert _left(target) == []


def test_no_server(target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match=f"127.0.0.1:{port} cannot be reached"):
        fetch(f"http://127.0.0.1:{port}/file", target)


def test_no_such_host(target):
    with pytest.raises(DownloadError, match=r"nowhere\.invalid cannot be reached .*a network\?"):
        fetch("http://nowhere.invalid/file", target)


def test_a_disk_with_too_little_space_is_said_before_anything_comes(server, target, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(fetch_module.shutil, "disk_usage", lambda _: usage(10**9, 10**9, 10**6))
    server.serve("/file", BODY)
    with pytest.raises(InputError, match=r"no space left on the disk \(1 MB free\); make room"):
        fetch(f"{server.url}/file", target)
    assert not (target.parent / "file.bin.part").exists()


def test_a_disk_that_fills_up_meanwhile(server, target, monkeypatch):
    class Full(io.BytesIO):
        def write(self, chunk):
            raise OSError(errno.ENOSPC, "No space left on device")

    server.serve("/file", BODY)
    real = type(target).open
    monkeypatch.setattr(
        type(target),
        "open",
        lambda path, *rest, **kw: Full() if path.suffix == ".part" else real(path, *rest, **kw),
    )
    with pytest.raises(InputError, match="no space left on the disk") as caught:
        fetch(f"{server.url}/file", target)
    assert "rerun the same command to resume" in str(caught.value)
    assert not target.exists()


def test_a_folder_that_is_a_file(server, tmp_path):
    (tmp_path / "sub").write_text("not a folder")
    with pytest.raises(InputError, match="cannot be written: "):
        fetch(f"{server.url}/file", tmp_path / "sub" / "file")


def test_a_token_stays_with_its_host(server, target):
    with running_server() as elsewhere:
        elsewhere.serve("/file", BODY)
        move = {"Location": f"{elsewhere.url}/file"}
        server.routes["/resolve"] = lambda _: Reply(status=302, headers=move)
        server.routes["/moved"] = lambda _: Reply(status=307, headers={"Location": "/resolve"})
        token = {"Authorization": "Bearer secret"}
        fetch(f"{server.url}/moved", target, headers=token, checksum=SHA256)
        assert "authorization" not in elsewhere.asked("/file")[0]
    assert server.asked("/moved")[0]["authorization"] == "Bearer secret"
    assert server.asked("/resolve")[0]["authorization"] == "Bearer secret"


def test_ranges_survive_redirects(server, target):
    server.routes["/moved"] = lambda _: Reply(status=302, headers={"Location": "/file"})
    cuts = iter([1000])

    def route(request):
        reply = file_reply(request, BODY)
        return Reply(reply.body, reply.status, reply.headers, next(cuts, None))

    server.routes["/file"] = route
    fetch(f"{server.url}/moved", target, checksum=SHA256, patience=QUICK)
    assert server.asked("/file")[1]["range"] == "bytes=1000-"


@pytest.mark.parametrize("goal", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_to_other_protocols_are_refused(server, goal):
    server.routes["/file"] = lambda _: Reply(status=302, headers={"Location": goal})
    with pytest.raises(DownloadError):
        open_url(f"{server.url}/file")


def test_redirects_in_a_circle(server, target):
    server.routes["/file"] = lambda _: Reply(status=302, headers={"Location": "/file"})
    with pytest.raises(DownloadError):
        fetch(f"{server.url}/file", target, patience=QUICK)


def test_checksums(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"hello\n")
    # `git hash-object` and `md5sum` of a file with the line "hello"
    assert file_digest(path, "git") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert file_digest(path, "md5") == "b1946ac92492d2347c6235b4d2611184"
    assert Checksum("md5", "b1946ac92492d2347c6235b4d2611184").matches(path)
    assert not Checksum("md5", "0" * 32).matches(path)


def test_the_first_error_stops_the_other_files(server, tmp_path):
    """One file is missing while another one trickles in: nobody waits for its end."""
    sent = itertools.count()

    def endless(request):
        next(sent)
        return file_reply(request, BODY, None)

    server.routes["/missing"] = lambda _: Reply(b"", 404)
    for i in range(300):
        server.routes[f"/{i}"] = endless
    jobs = [Job(f"{server.url}/missing", tmp_path / "missing")]
    jobs += [Job(f"{server.url}/{i}", tmp_path / f"{i}") for i in range(300)]
    options = Options(patience=QUICK, workers=2, progress=Progress(show=False))
    with pytest.raises(DownloadError, match=r"missing does not exist"):
        fetch_all(jobs, {}, options, "files")
    assert next(sent) < 100


def test_bars_on_a_terminal(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes rich take a pipe for a terminal
    monkeypatch.setenv("TERM", "xterm")
    for i in range(6):
        server.serve(f"/{i}", BODY)
    with Progress(show=True) as progress:
        options = Options(patience=QUICK, progress=progress)
        few = [Job(f"{server.url}/{i}", tmp_path / f"large-{i}") for i in range(2)]
        fetch_all(few, {}, options, "large files")
        many = [Job(f"{server.url}/{i}", tmp_path / f"small-{i}") for i in range(6)]
        assert len(fetch_all(many, {}, options, "small files")) == 6
        progress._display.refresh()
    shown = capsys.readouterr().err
    assert "large-0" in shown
    assert "large-1" in shown
    assert "small files" in shown
    assert "small-0" not in shown


def test_no_bars_elsewhere(capsys):
    with Progress() as progress:
        progress.bytes("file")(1, 2)
    assert capsys.readouterr() == ("", "")
