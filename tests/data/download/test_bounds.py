"""How far a download goes: redirects, hosts, listed sizes, limits, and a server that is silent."""

import hashlib
import itertools
import random
import threading

import certificates
import pytest
from local_server import LocalServer, Reply, file_reply, running_server

from ttm_jax.data.download import http as http_module
from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import ChangedFile, fetch
from ttm_jax.data.download.http import DownloadError, Patience, hang_up, open_url
from ttm_jax.data.download.options import Job, Options, fetch_all
from ttm_jax.data.download.progress import Progress

tls = certificates.tls  # fixture
BODY = random.Random(0).randbytes(1 << 18)
SHA256 = Checksum("sha256", hashlib.sha256(BODY).hexdigest())
QUICK = Patience(tries=3, pause=0.0)


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as server:
        yield server


@pytest.fixture
def fresh_opener():
    """Trust and proxies are read from the environment when the first URL is opened."""
    http_module._opener.cache_clear()
    yield
    http_module._opener.cache_clear()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "sub" / "file.bin"


def left(target):
    return sorted(path.name for path in target.parent.iterdir())


# --- sizes


def test_not_a_byte_more_than_listed(server, target):
    """5,000 bytes are listed, and the server never stops sending."""
    server.routes["/file"] = lambda _: Reply(stream=itertools.repeat(bytes(5000)))
    with pytest.raises(ChangedFile, match="5000 listed bytes"):
        fetch(f"{server.url}/file", target, size=5000, patience=QUICK)
    assert server.sent < 10**8
    assert left(target) == []


@pytest.mark.parametrize("size", [len(BODY) - 1, len(BODY) + 1, 0])
def test_an_announced_size_that_is_not_the_listed_one(server, target, size):
    server.serve("/file", BODY)
    with pytest.raises(ChangedFile, match=f"has {len(BODY)} bytes, {size} are listed"):
        fetch(f"{server.url}/file", target, size=size, patience=QUICK)
    assert left(target) == []


def test_the_listed_size_with_and_without_an_announced_one(server, target):
    server.serve("/file", BODY)
    fetch(f"{server.url}/file", target, size=len(BODY), checksum=SHA256)
    assert target.read_bytes() == BODY
    server.routes["/stream"] = lambda _: Reply(stream=[BODY])
    fetch(f"{server.url}/stream", target, size=len(BODY), checksum=SHA256)
    assert target.read_bytes() == BODY


def test_a_stream_that_ends_early_is_not_the_file(server, target):
    server.routes["/file"] = lambda _: Reply(stream=[BODY[:1000]])
    with pytest.raises(DownloadError, match=f"lost after 1000 of {len(BODY)} bytes"):
        fetch(f"{server.url}/file", target, size=len(BODY), patience=QUICK)
    assert not target.exists()


def test_a_limit_where_no_size_is_listed(server, target, monkeypatch):
    monkeypatch.setenv("TTM_JAX_MAX_DOWNLOAD_BYTES", "100000")
    server.serve("/file", BODY)
    server.routes["/stream"] = lambda _: Reply(stream=itertools.repeat(bytes(5000)))
    for path in ("file", "stream"):
        with pytest.raises(DownloadError, match=r"more than 100000 bytes, .*DOWNLOAD_BYTES"):
            fetch(f"{server.url}/{path}", target, patience=QUICK)
        assert "file.bin.part" not in left(target)
    with pytest.raises(DownloadError, match="more than 100000 bytes"):
        fetch(f"{server.url}/file", target, size=len(BODY), patience=QUICK)


@pytest.mark.parametrize("length", ["9" * 5000, "-5", "1_000", "٣", "ten", ""])
def test_odd_lengths(server, target, length):
    """A number of thousands of digits, for one, is more than Python converts."""
    server.routes["/file"] = lambda _: Reply(stream=[BODY], headers={"X-Length": "see below"})

    def route(_):
        return Reply(stream=[BODY], headers={"Content-Length": length} if length.isascii() else {})

    server.routes["/file"] = route
    try:
        fetch(f"{server.url}/file", target, checksum=SHA256, patience=QUICK)
    except DownloadError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert target.read_bytes() == BODY


@pytest.mark.parametrize("span", ["bytes 10-/", "bytes */*", "x", "bytes 10-20/" + "9" * 5000])
def test_odd_ranges(server, target, span):
    server.routes["/file"] = lambda _: Reply(BODY, headers={"ETag": '"v1"'}, cut=100_000)
    with pytest.raises(DownloadError):
        fetch(f"{server.url}/file", target, patience=Patience(1, 0.0))
    replies = iter([Reply(BODY[100_000:], 206, {"Content-Range": span}), Reply(BODY)])
    server.routes["/file"] = lambda _: next(replies)
    fetch(f"{server.url}/file", target, checksum=SHA256, patience=QUICK)
    assert target.read_bytes() == BODY


# --- redirects


def test_a_few_redirects_and_not_more(server, target):
    for i in range(20):
        move = {"Location": f"/{i + 1}"}
        server.routes[f"/{i}"] = lambda _, move=move: Reply(status=302, headers=move)
    server.serve("/20", BODY)
    fetch(f"{server.url}/15", target)
    with pytest.raises(DownloadError, match=r"redirects too often") as caught:
        fetch(f"{server.url}/0", target, patience=QUICK)
    assert "\n" not in str(caught.value)
    assert len(server.seen) < 20


@pytest.mark.parametrize(
    "goal", ["http://[", "//", "http://host:x/", "javascript:x", "\\\\host\\x"]
)
def test_redirects_to_nowhere(server, target, goal):
    server.routes["/file"] = lambda _: Reply(status=302, headers={"Location": goal})
    with pytest.raises(DownloadError) as caught:
        fetch(f"{server.url}/file", target, patience=Patience(1, 0.0))
    assert "\n" not in str(caught.value)


def test_never_from_https_to_http(tls, server, target, fresh_opener):
    server.serve("/file", BODY)
    with running_server(tls) as secure:
        secure.serve("/file", BODY)
        fetch(f"{secure.url}/file", target, checksum=SHA256)  # the certificate is trusted
        move = {"Location": f"{server.url}/file"}
        secure.routes["/moved"] = lambda _: Reply(status=302, headers=move)
        with pytest.raises(DownloadError, match=r"redirects to .*, which is not secure"):
            fetch(f"{secure.url}/moved", target)
    assert server.seen == []


def test_a_certificate_that_is_not_trusted(tls, target, fresh_opener, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with (
        running_server(tls) as secure,
        pytest.raises(DownloadError, match="certificate that is not trusted"),
    ):
        fetch(f"{secure.url}/file", target, patience=QUICK)


def test_not_from_the_internet_into_the_local_network(server, target, fresh_opener, monkeypatch):
    """A proxy plays the internet: it answers for public.example."""
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server.serve("/good", BODY)
    fetch("http://public.example/good", target, checksum=SHA256)
    with running_server() as inside:
        move = {"Location": f"{inside.url}/admin"}
        server.routes["/bad"] = lambda _: Reply(status=302, headers=move)
        with pytest.raises(DownloadError, match="which is in the local network"):
            fetch("http://public.example/bad", target)
        assert inside.seen == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "x"])
def test_other_protocols_are_not_opened(target, url):
    with pytest.raises(DownloadError, match="not an address that can be fetched"):
        fetch(url, target)


def test_addresses_that_cannot_be_sent(server, target):
    for path in ("/a b", "/a\nb", "/ä"):
        with pytest.raises(DownloadError) as caught:
            fetch(server.url + path, target, patience=Patience(1, 0.0))
        assert "\n" not in str(caught.value)


def test_signatures_are_not_shown(server, target):
    server.routes["/file"] = lambda _: Reply(b"", 404)
    with pytest.raises(DownloadError) as caught:
        fetch(f"{server.url}/file?Signature=secret", target)
    assert "secret" not in str(caught.value)


# --- silence


def _stuck(server: LocalServer, path: str) -> tuple[threading.Event, threading.Event]:
    """A route that sends a little and then nothing; events: it was reached, it may end."""
    reached, release = threading.Event(), threading.Event()

    def route(request):
        reached.set()
        whole = file_reply(request, BODY)
        return Reply(whole.body, whole.status, whole.headers, cut=10, wait=release)

    server.routes[path] = route
    return reached, release


def test_hanging_up_ends_the_waiting(server):
    reached, release = _stuck(server, "/file")
    with open_url(f"{server.url}/file") as response:
        reached.wait()
        assert response.read(10) == BODY[:10]
        ended = threading.Event()

        def read():
            with pytest.raises(Exception, match=r"IncompleteRead|Bad file|reset|shut"):
                response.read()
            ended.set()

        thread = threading.Thread(target=read)
        thread.start()
        hang_up()
        assert ended.wait(30)
        thread.join()
    release.set()


def test_one_failure_ends_the_files_whose_server_is_silent(server, tmp_path):
    """Nobody waits a minute for bytes that no longer matter."""
    reached, release = _stuck(server, "/stuck")

    def missing(_):
        reached.wait(30)
        return Reply(b"", 404)

    server.routes["/missing"] = missing
    jobs = [Job(f"{server.url}/{name}", tmp_path / name) for name in ("stuck", "missing")]
    options = Options(patience=Patience(5, 100.0), workers=2, progress=Progress(show=False))
    with pytest.raises(DownloadError, match="missing does not exist"):
        fetch_all(jobs, {}, options, "files")
    release.set()
