"""Listings of the hub: one request, bounded and checked, and errors in one line."""

import gzip
import itertools
import json
import socket

import published
import pytest
from local_server import Reply, running_server

from ttm_jax.data.download import hub
from ttm_jax.data.download.http import AccessDenied, DownloadError, Patience

server = published.server  # fixture
REPO = "MMVP/MMVP_VLM"
PATH = published.listing_path("mmvp_vlm")
FILES = {"Questions.csv": b"small", "MLLM_VLM Images/Color/1.jpg": b"large file"}
QUICK = Patience(tries=3, pause=0.0)


def list_files(server, token=None):
    return hub.list_files(server.url, REPO, token, QUICK)


def serve(server, listing, **headers):
    server.routes[PATH] = lambda _: published.json_reply(listing, **headers)


def test_sizes_and_checksums_of_small_and_large_files(server):
    serve(server, published.listing_of("mmvp_vlm", FILES))
    small, large = list_files(server)
    assert (small.path, small.bytes) == ("Questions.csv", 5)
    assert (small.checksum.algorithm, small.checksum.value) == ("git", published.git_id(b"small"))
    assert (large.checksum.algorithm, len(large.checksum.value)) == ("sha256", 64)
    resolve = f"{server.url}/datasets/{REPO}/resolve/{published.COMMIT}"
    assert large.url == f"{resolve}/MLLM_VLM%20Images/Color/1.jpg"
    (request,) = server.seen
    assert request.query == {"blobs": "true"}
    assert "authorization" not in request.headers


def test_a_next_page_is_not_asked_for(server):
    """Wherever it may be: on another host, on the disk, or here again."""
    with running_server() as elsewhere:
        for link in (f"{elsewhere.url}{PATH}", "file:///etc/passwd", f"{server.url}{PATH}"):
            listing = published.listing_of("mmvp_vlm", FILES)
            serve(server, listing, Link=f'<{link}>; rel="next"')
            server.seen.clear()
            assert len(list_files(server, token="hf_secret")) == 2
            assert len(server.seen) == 1
        assert elsewhere.seen == []


def test_a_token_stays_with_its_host(server):
    with running_server() as elsewhere:
        serve(elsewhere, published.listing_of("mmvp_vlm", FILES))
        move = {"Location": f"{elsewhere.url}{PATH}"}
        server.routes[PATH] = lambda _: Reply(status=307, headers=move)
        assert len(list_files(server, token="hf_secret")) == 2
        assert server.seen[0].headers["authorization"] == "Bearer hf_secret"
        assert "authorization" not in elsewhere.seen[0].headers


@pytest.mark.parametrize("goal", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://["])
def test_redirects_to_other_protocols_are_refused(server, goal):
    server.routes[PATH] = lambda _: Reply(status=302, headers={"Location": goal})
    with pytest.raises(DownloadError) as caught:
        list_files(server)
    assert "\n" not in str(caught.value)


def test_redirects_in_a_circle(server):
    server.routes[PATH] = lambda _: Reply(status=302, headers={"Location": PATH})
    with pytest.raises(DownloadError, match="redirects too often"):
        list_files(server)
    assert len(server.seen) < 30


def test_an_answer_without_end(server, monkeypatch):
    monkeypatch.setenv("TTM_JAX_MAX_PAGE_BYTES", "100000")
    server.routes[PATH] = lambda _: Reply(stream=itertools.repeat(b'{"id": ' * 1000))
    with pytest.raises(DownloadError, match="answers more than 100000 bytes"):
        list_files(server)
    assert server.sent < 10**8


def test_a_compressed_answer_was_not_asked_for(server):
    """A kilobyte could unpack to a megabyte."""
    packed = gzip.compress(json.dumps(published.listing_of("mmvp_vlm", FILES)).encode())
    server.routes[PATH] = lambda _: Reply(packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises(DownloadError, match="in an encoding that was not asked for"):
        list_files(server)
    assert server.seen[0].headers["accept-encoding"] == "identity"


def changed(**fields):
    return published.listing_of("mmvp_vlm", FILES) | fields


def entry(**fields):
    first, second = published.listing_of("mmvp_vlm", FILES)["siblings"]
    return changed(siblings=[first, second | fields])


LFS = {"sha256": "0" * 64, "size": 10, "pointerSize": 1}
BROKEN = {
    "null": None,
    "a text": "x",
    "a list": [],
    "empty": {},
    "no commit": changed(sha=None),
    "a commit that is a path": changed(sha="../../x"),
    "a commit that is a number": changed(sha=7),
    "siblings are a text": changed(siblings="x"),
    "siblings are numbers": changed(siblings=[1, 2]),
    "siblings are lists": changed(siblings=[[]]),
    "no name": changed(siblings=[{"size": 1}]),
    "a name that is a number": entry(rfilename=7),
    "a name that leads out": entry(rfilename="../../.bashrc"),
    "an absolute name": entry(rfilename="/etc/passwd"),
    "a name with a newline": entry(rfilename="a\nb"),
    "a size that is a text": entry(size="10"),
    "a size that is negative": entry(size=-1),
    "a size that is true": entry(size=True),
    "no size": entry(size=None),
    "lfs is a text": entry(lfs="x"),
    "lfs without a checksum": entry(lfs={"size": 1, "pointerSize": 1}),
    "a short checksum": entry(lfs=LFS | {"sha256": "0" * 63}),
    "a checksum that is a number": entry(lfs=LFS | {"sha256": 0}),
    "no checksum at all": entry(lfs=None, blobId=None),
    "a file twice": changed(siblings=published.listing_of("mmvp_vlm", FILES)["siblings"] * 2),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_listings(server, name):
    serve(server, BROKEN[name])
    with pytest.raises(DownloadError) as caught:
        list_files(server)
    assert "\n" not in str(caught.value)
    assert REPO in str(caught.value)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{", b"[" * 10**6, b"\xff", b'{"a":' * 10**5, b"9" * 10**5]
)
def test_answers_that_are_no_json(server, body):
    server.serve(PATH, body)
    with pytest.raises(DownloadError, match="answers something that is not a listing"):
        list_files(server)


def test_too_many_files(server, monkeypatch):
    monkeypatch.setenv("TTM_JAX_MAX_LISTED_FILES", "1")
    serve(server, published.listing_of("mmvp_vlm", FILES))
    with pytest.raises(DownloadError, match="lists 2 files; at most 1 are expected"):
        list_files(server)


@pytest.mark.parametrize(
    ("status", "headers", "kind", "message", "requests"),
    [
        (401, {}, AccessDenied, r"not given to us \(401", 1),
        (403, {"X-Error-Code": "GatedRepo"}, AccessDenied, r"not given to us \(403", 1),
        (404, {"X-Error-Code": "RepoNotFound"}, DownloadError, r"does not exist \(404\)", 1),
        (404, {"X-Error-Code": "RevisionNotFound"}, DownloadError, r"does not exist \(404\)", 1),
        (400, {}, DownloadError, "answers 400", 1),
        (429, {}, DownloadError, r"answers 429 .*\(tried 3 times\)", 3),
        (503, {}, DownloadError, r"answers 503 .*\(tried 3 times\)", 3),
    ],
)
def test_statuses(server, status, headers, kind, message, requests):
    server.routes[PATH] = lambda _: Reply(b"{}", status, headers)
    with pytest.raises(kind, match=message) as caught:
        list_files(server)
    assert len(server.seen) == requests
    assert "\n" not in str(caught.value)


def test_a_server_that_recovers(server):
    good = published.json_reply(published.listing_of("mmvp_vlm", FILES))
    replies = iter([Reply(b"", 500), Reply(b'{"id": "x", "sha', cut=5), good])
    server.routes[PATH] = lambda _: next(replies)
    assert len(list_files(server)) == 2


@pytest.mark.usefixtures("server")  # online
def test_no_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match=f"127.0.0.1:{port} cannot be reached"):
        hub.list_files(f"http://127.0.0.1:{port}", REPO, None, QUICK)


@pytest.mark.parametrize("endpoint", ["file:///etc", "ftp://host", "huggingface.co", ""])
def test_endpoints_that_are_none(endpoint):
    with pytest.raises(DownloadError, match="not an address that can be fetched"):
        hub.list_files(endpoint, REPO, None, QUICK)


def test_a_token_is_not_sent_unencrypted_through_the_internet(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_secret")
    assert hub.find_token("https://huggingface.co") == "hf_secret"
    assert hub.find_token("http://127.0.0.1:8000") == "hf_secret"
    assert hub.find_token("http://huggingface.co") is None


def test_the_shared_session_is_left_as_it_was(server):
    from huggingface_hub import get_session

    before = get_session().event_hooks
    serve(server, None)
    with pytest.raises(DownloadError):
        list_files(server)
    assert get_session().event_hooks == before
