"""A server that sends too much, lies about what it sends, redirects, or attacks the terminal."""

import gzip
import json
import threading
import tracemalloc
import zlib
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from chat_server import ChatServer, Request, Response, answer, completion, error

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.runs.signals import RunInterrupted
from ttm_jax.scorers.api import (
    ApiKey,
    RateLimits,
    Replies,
    RequestSettings,
    RetryPolicy,
    Usage,
    fetch_replies,
    make_plan,
    read_run,
)
from ttm_jax.scorers.api.http_limits import MAX_BYTES

pytest.importorskip("openai")

KEY = "sk-test-4b7Qw9ZxL0pR2mN8vT6y"
NO_RETRY = RetryPolicy(timeout=20.0, retries=0)
GZIP = {"content-encoding": "gzip"}


def ask(server: ChatServer, path, retry=NO_RETRY) -> Replies:
    """One group of one image and two captions: two requests, one after the other."""
    group = Group("g", (np.zeros((8, 8, 3), np.uint8),), ("a cat", "a dog"), (0,))
    settings = RequestSettings(model="some-model", base_url=server.url)
    plan = make_plan(GroupedDataset.from_groups([group]), settings)
    cache = path / "answers.sqlite"
    return fetch_replies(plan, cache, ApiKey(KEY), rates=RateLimits(concurrency=1), retry=retry)


def bomb(megabytes: int, start: bytes = b"") -> bytes:
    """A gzip file that unpacks to spaces."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    parts = [packer.compress(start)]
    parts += [packer.compress(b" " * 2**20) for _ in range(megabytes)]
    return b"".join([*parts, packer.flush()])


def failure(path, response: Response, kind=RunInterrupted) -> str:
    """The error that such a response leads to, after a single attempt."""
    with ChatServer(lambda request: response) as server:
        with pytest.raises(kind) as raised:
            ask(server, path)
        assert server.received.total() == 1
    message = str(raised.value)
    assert message.isprintable(), "one line without control characters"
    assert len(message) < 600
    assert KEY[:8] not in message
    return message


# Size.


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [(200, RunInterrupted, "larger than 1 MB"), (400, InputError, "answers 400")],
)
def test_a_gzip_bomb_is_not_unpacked(tmp_path, status, kind, says):
    packed = bomb(300, b'{"choices": ')
    assert len(packed) < 400_000
    tracemalloc.start()
    try:
        message = failure(tmp_path, Response(status, data=packed, headers=GZIP), kind)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert says in message
    assert peak < 40 * 2**20, "300 MB would have been unpacked"


def test_a_large_reply_is_not_read_to_the_end(tmp_path):
    body = Response(body=json.dumps(completion([("Yes", -0.5)]) | {"padding": " " * 3 * MAX_BYTES}))
    assert "larger than 1 MB" in failure(tmp_path, body)


def test_a_large_error_keeps_its_status(tmp_path):
    message = failure(tmp_path, error(403, "no " * MAX_BYTES), InputError)
    assert "answers 403" in message
    assert "may not use this model" in message


def test_a_reply_of_exactly_the_limit_is_read(tmp_path):
    body = json.dumps(completion([("Yes", -0.5)]))
    padded = Response(body=body + " " * (MAX_BYTES - len(body)))
    with ChatServer(lambda request: padded) as server:
        assert read_run(ask(server, tmp_path), 1).kinds == {"yes": 2}


# Compression.


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("", bytes),
    ],
)
def test_compressed_replies_are_read(tmp_path, encoding, pack):
    """They are not asked for, but a proxy may compress anyway."""
    packed = pack(answer(0.75).body.encode())
    response = Response(data=packed, headers={"content-encoding": encoding})
    with ChatServer(lambda request: response) as server:
        run = read_run(ask(server, tmp_path), 1)
        assert server.requests[0].headers["accept-encoding"] == "identity"
    np.testing.assert_allclose(run.scores[0], 0.75, rtol=1e-12)


@pytest.mark.parametrize(
    ("encoding", "data", "says"),
    [
        ("gzip", b"not gzip at all", "cannot be unpacked"),
        ("gzip", gzip.compress(answer(0.5).body.encode())[:-40], "not JSON"),
        ("br", b"\x0b\x02\x80", "was not asked for"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}")), "was not asked for"),
        ("gzip", gzip.compress(b"") + b"\0" * 2 * MAX_BYTES, "larger than 1 MB"),
    ],
    ids=["not gzip", "truncated", "brotli", "twice", "garbage after the end"],
)
def test_broken_compression_is_a_failed_request(tmp_path, encoding, data, says):
    response = Response(data=data, headers={"content-encoding": encoding})
    assert says in failure(tmp_path, response)


# Content.


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (Response(body="[" * 200_000), "nested too deeply"),
        (Response(body='{"choices":' * 50_000), "nested too deeply"),
        (Response(body="<html>[/red]</html>", headers={"content-type": "text/html"}), "text/html"),
        (Response(body=answer(0.5).body, headers={"content-type": "text/html"}), "text/html"),
        (Response(body="<html>Hello</html>"), "not JSON"),
        (Response(body=answer(0.5).body[:-30]), "not JSON"),
        (Response(status=204), "unusable reply"),
        (Response(body='{"choices": [' + "9" * 10_000 + "]}"), "not JSON"),
    ],
    ids=["arrays", "objects", "HTML", "JSON as HTML", "HTML as JSON", "truncated", "204", "digits"],
)
def test_replies_that_are_not_completions_are_failed_requests(tmp_path, response, says):
    assert says in failure(tmp_path, response)


@pytest.mark.parametrize(
    "body", ["[" * 200_000, '{"error":' * 100_000, '{"error": {"message": 7}}']
)
def test_an_error_with_a_strange_body_keeps_its_status(tmp_path, body):
    assert "answers 403" in failure(tmp_path, Response(403, body), InputError)


@pytest.mark.parametrize("charset", ["rot13", "bz2", "hex", "utf-16", "nonsense"])
def test_the_server_s_charset_is_ignored(tmp_path, charset):
    """Some of Python's codecs do not make text, and one of them unpacks."""
    headers = {"content-type": f"application/json; charset={charset}"}
    refusal = Response(403, error(403, "not for you").body, headers)
    assert "answers 403: not for you" in failure(tmp_path, refusal, InputError)
    with ChatServer(lambda request: Response(body=answer(0.5).body, headers=headers)) as server:
        assert read_run(ask(server, tmp_path / "2"), 1).kinds == {"yes": 2}


def test_unusable_replies_are_retried_and_counted_as_maybe_billed(tmp_path):
    def script(request: Request) -> Response:
        return Response(data=bomb(5), headers=GZIP) if request.times == 1 else answer(0.5)

    retry = RetryPolicy(timeout=20.0, retries=2, backoff=0.01, longest_backoff=0.02)
    with ChatServer(script) as server:
        replies = ask(server, tmp_path, retry)
        assert set(server.received.values()) == {2}
    assert replies.lost.output == 2


def test_values_that_cannot_be_stored(tmp_path):
    """Half a surrogate pair is no UTF-8, and SQLite's integers have 64 bits."""
    half, huge = "\ud83d", 10**30
    body = completion(
        [(f"Yes{half}", -3.0), ("Yes", -0.5), *((f"t{i}", -9.0) for i in range(5000))],
        model=f"m{half}",
        usage={"prompt_tokens": huge, "completion_tokens": 1},
        choice={"message": {"content": f"{half}" * 50_000, "refusal": None}},
    )
    with ChatServer(lambda request: Response(body=json.dumps(body))) as server:
        replies = ask(server, tmp_path)
        again = ask(server, tmp_path)
        assert server.received.total() == 2
    assert again.by_key == replies.by_key
    reply = next(iter(replies.by_key.values()))
    assert reply.usage == replies.plan.requests[0].estimate, "an impossible count is not believed"
    assert len(reply.content) == 10_000
    assert len(reply.top) == 1000
    np.testing.assert_allclose(read_run(replies, 1).scores[0], np.exp(-0.5), rtol=1e-12)
    assert replies.used != Usage()


# Redirects.


class Elsewhere:
    """Another server, which records the headers of all requests that reach it."""

    def __enter__(self) -> "Elsewhere":
        self.headers: list[dict[str, str]] = []
        seen = self.headers

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                seen.append(dict(self.headers))
                body = answer(0.5).body.encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        # Another name for the same machine: another host as far as HTTP is concerned.
        self.url = f"http://localhost:{self._http.server_port}/v1/chat/completions"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_refused_and_carry_nothing_elsewhere(tmp_path, status):
    with Elsewhere() as elsewhere:
        redirect = Response(status, headers={"location": elsewhere.url})
        message = failure(tmp_path, redirect, InputError)
        assert elsewhere.headers == [], "no request, and so no key, reached the other server"
    assert f"redirects to {elsewhere.url}" in message
    assert "`base_url`" in message


def test_a_redirect_s_target_is_shown_safely(tmp_path):
    location = f"http://evil.example/{KEY}/" + "x" * 5000
    message = failure(tmp_path, Response(307, headers={"location": location}), InputError)
    assert "redirects to http://evil.example/[key]/xxx" in message


# Text on the terminal.


HOSTILE_TEXT = "\x1b]0;title\x07\x1b[31mred\x9b2J[/red] [bold]\r\nerror: forged\u2028line \u202egnp"


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_control_characters_in_errors_are_escaped(tmp_path, status):
    message = failure(tmp_path, error(status, HOSTILE_TEXT), InputError)
    assert r"\x1b]0;title\x07\x1b[31mred\x9b2J[/red] [bold] error: forged line \u202egnp" in message


@pytest.mark.parametrize("status", [429, 500])
def test_control_characters_in_transient_errors_are_escaped(tmp_path, status):
    assert r"\x1b[31mred" in failure(tmp_path, error(status, HOSTILE_TEXT))


def test_control_characters_in_other_places_are_escaped(tmp_path):
    page = Response(body=HOSTILE_TEXT, headers={"content-type": "text/html"})
    assert r"\x1b[31mred" in failure(tmp_path / "1", page)
    plain = Response(503, HOSTILE_TEXT, headers={"content-type": "text/plain"})
    assert "answers 503" in failure(tmp_path / "2", plain)


def test_an_error_is_cut_to_a_bounded_length(tmp_path):
    message = failure(tmp_path, error(400, "very " * 100_000), InputError)
    assert message.count("very") < 100
    assert "..." in message
