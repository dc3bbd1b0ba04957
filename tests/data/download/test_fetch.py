"""Single files from a real server on the loopback: interrupted, changed, continued."""

import hashlib
import itertools
import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_server import Reply, file_reply, running_server

from ttm_jax.data.download import fetch as fetch_module
from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import ChangedFile, fetch
from ttm_jax.data.download.http import (
    DownloadError,
    Patience,
)

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


def test_a_file_comes_whole(server, target):
    server.serve("/file", BODY)
    calls = []
    fetch(f"{server.url}/file", target, checksum=SHA256, bar=lambda *call: calls.append(call))
    assert target.read_bytes() == BODY
    assert _left(target) == ["file.bin"]
    assert calls[0] == (0, len(BODY))
    assert calls[-1] == (len(BODY), len(BODY))


def test_a_lost_connection_is_continued_where_it_stopped(server, target):
    cuts = iter([300_000, 700_000 - 300_000])

    def route(request):
        reply = file_reply(request, BODY)
        cut = next(cuts, None)
        return reply if cut is None else Reply(reply.body, reply.status, reply.headers, cut)

    server.routes["/file"] = route
    calls = []
    fetch(
        f"{server.url}/file",
        target,
        checksum=SHA256,
        bar=lambda *call: calls.append(call),
        patience=QUICK,
    )
    assert target.read_bytes() == BODY
    ranges = [headers.get("range") for headers in server.asked("/file")]
    assert ranges == [None, "bytes=300000-", "bytes=700000-"]
    assert [headers.get("if-range") for headers in server.asked("/file")] == [None, '"v1"', '"v1"']
    assert (300_000, len(BODY)) in calls
    assert _left(target) == ["file.bin"]


def test_another_command_continues_too(server, target):
    """A server that always breaks off: patience ends, what came stays, the next command goes on."""
    dying = [True]

    def route(request):
        if dying[0]:
            return Reply(BODY, headers={"ETag": '"v1"'}, cut=1000)
        return file_reply(request, BODY)

    server.routes["/file"] = route
    with pytest.raises(DownloadError, match=r"connection was lost after 1000 of 1048576 bytes"):
        fetch(f"{server.url}/file", target, patience=QUICK)
    assert not target.exists()
    assert (target.parent / "file.bin.part").stat().st_size == 1000
    dying[0] = False
    fetch(f"{server.url}/file", target, patience=QUICK)
    assert target.read_bytes() == BODY
    assert server.asked("/file")[-1]["range"] == "bytes=1000-"


def test_progress_counts_as_patience(server, target):
    """Ten cuts are more than three tries, but every one brought something."""
    served = itertools.count(1)

    def route(request):
        reply = file_reply(request, BODY)
        cut = 100_000 if next(served) <= 10 else None
        return Reply(reply.body, reply.status, reply.headers, cut)

    server.routes["/file"] = route
    fetch(f"{server.url}/file", target, checksum=SHA256, patience=QUICK)
    assert target.read_bytes() == BODY


def _interrupt(server, target, count, **headers):
    """Leave `count` bytes of the file behind."""
    server.routes["/file"] = lambda _: Reply(BODY, headers=headers, cut=count)
    with pytest.raises(DownloadError):
        fetch(f"{server.url}/file", target, patience=Patience(1, 0.0))


def test_a_file_that_changed_meanwhile_starts_over(server, target):
    _interrupt(server, target, 1000, ETag='"v1"')
    other = BODY[::-1]
    server.serve("/file", other, etag='"v2"')
    fetch(f"{server.url}/file", target, patience=QUICK)
    assert target.read_bytes() == other
    assert server.asked("/file")[-1]["if-range"] == '"v1"'


def test_a_server_without_ranges_starts_over(server, target):
    _interrupt(server, target, 1000, ETag='"v1"')
    server.routes["/file"] = lambda _: Reply(BODY, headers={"ETag": '"v1"'})
    fetch(f"{server.url}/file", target, checksum=SHA256, patience=QUICK)
    assert target.read_bytes() == BODY


def test_a_date_serves_where_there_is_no_tag_and_weak_tags_do_not(server, target):
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    _interrupt(server, target, 1000, ETag='W/"weak"', **{"Last-Modified": date})
    server.routes["/file"] = lambda request: file_reply(request, BODY, etag=date)
    fetch(f"{server.url}/file", target, patience=QUICK)
    assert server.asked("/file")[-1]["if-range"] == date
    assert target.read_bytes() == BODY


def test_without_any_mark_of_the_version_only_a_checksum_allows_to_continue(server, target):
    _interrupt(server, target, 1000)
    server.serve("/file", BODY, etag=None)
    fetch(f"{server.url}/file", target, checksum=SHA256, patience=QUICK)
    assert server.asked("/file")[-1]["range"] == "bytes=1000-"
    assert target.read_bytes() == BODY
    target.unlink()
    _interrupt(server, target, 1000)
    server.serve("/file", BODY, etag=None)
    fetch(f"{server.url}/file", target, patience=QUICK)
    assert "range" not in server.asked("/file")[-1]
    assert target.read_bytes() == BODY


def test_an_answer_that_does_not_continue_is_not_glued_on(server, target):
    _interrupt(server, target, 1000, ETag='"v1"')
    replies = iter(
        [
            Reply(BODY[5:], 206, {"Content-Range": f"bytes 5-{len(BODY) - 1}/{len(BODY)}"}),
            Reply(BODY, headers={"ETag": '"v1"'}),
        ]
    )
    server.routes["/file"] = lambda _: next(replies)
    fetch(f"{server.url}/file", target, patience=QUICK)
    assert target.read_bytes() == BODY
    assert "range" not in server.asked("/file")[-1]


def test_a_rest_of_another_length_is_not_glued_on(server, target):
    _interrupt(server, target, 1000, ETag='"v1"')
    longer = BODY[::-1] + b"more"
    span = {"Content-Range": f"bytes 1000-{len(longer) - 1}/{len(longer)}"}
    replies = iter([Reply(longer[1000:], 206, span), Reply(longer)])
    server.routes["/file"] = lambda _: next(replies)
    fetch(f"{server.url}/file", target, patience=QUICK)
    assert target.read_bytes() == longer


def test_a_part_that_is_longer_than_the_file(server, target):
    _interrupt(server, target, 1000, ETag='"v1"')
    server.serve("/file", b"short", etag='"v1"')  # answers 416
    fetch(f"{server.url}/file", target, patience=QUICK)
    assert target.read_bytes() == b"short"


def test_a_complete_part_is_only_renamed(server, target):
    """Killed between the last byte and the new name: nothing has to come again."""
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(BODY)
    note = {"identity": f"{server.url}/file", "validator": '"v1"', "total": len(BODY)}
    (target.parent / "file.bin.part.json").write_text(json.dumps(note))
    fetch(f"{server.url}/file", target, checksum=SHA256)
    assert target.read_bytes() == BODY
    assert server.seen == []


@pytest.mark.parametrize("note", [None, "{", "[]", '{"identity": "other", "validator": null}'])
def test_a_part_of_unknown_origin_is_not_used(server, target, note):
    server.serve("/file", BODY)
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(b"something else")
    if note is not None:
        (target.parent / "file.bin.part.json").write_text(note)
    fetch(f"{server.url}/file", target)
    assert target.read_bytes() == BODY


def test_a_part_of_another_file_is_not_used(server, target):
    _interrupt(server, target, 1000, ETag='"v1"')
    server.serve("/other", BODY[::-1], etag='"v1"')
    fetch(f"{server.url}/other", target, patience=QUICK)
    assert target.read_bytes() == BODY[::-1]


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.integers(0, 60_000), max_size=6), ranges=st.booleans(), tag=st.booleans())
def test_whatever_the_interruptions_the_file_is_right(
    cuts, ranges, tag, tmp_path_factory, monkeypatch
):
    body = BODY[:100_003]
    target = tmp_path_factory.mktemp("d") / "f"
    left = iter(cuts)
    monkeypatch.setattr(fetch_module, "_SMALL", 0)
    with running_server() as server:

        def route(request):
            plain = Reply(body, headers={"ETag": '"t"'} if tag else {})
            reply = file_reply(request, body, '"t"' if tag else None) if ranges else plain
            return Reply(reply.body, reply.status, reply.headers, next(left, None))

        server.routes["/f"] = route
        fetch(f"{server.url}/f", target, patience=Patience(tries=10, pause=0.0))
    assert target.read_bytes() == body


def test_a_wrong_checksum_leaves_nothing(server, target):
    server.serve("/file", BODY[:-1] + b"x")
    with pytest.raises(ChangedFile, match=f"expected sha256 {SHA256.value}"):
        fetch(f"{server.url}/file", target, checksum=SHA256)
    assert _left(target) == []


def test_an_old_file_stays_until_the_new_one_is_complete(server, target):
    target.parent.mkdir()
    target.write_bytes(b"old")
    server.routes["/file"] = lambda _: Reply(BODY, cut=10)
    with pytest.raises(DownloadError):
        fetch(f"{server.url}/file", target, patience=QUICK)
    assert target.read_bytes() == b"old"
