"""A local server that speaks the chat-completions protocol, with scripted faults.

    with ChatServer(lambda request: answer(0.9)) as server:
        ...  # RequestSettings(base_url=server.url)

The script receives every request and returns the response. The server counts requests by content,
those that it answered completely, and how many were in flight at the same time.
"""

import hashlib
import json
import math
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

USAGE = {"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}


@dataclass(frozen=True)
class Request:
    """`number` counts all requests from 1, `times` those with this content."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    number: int
    times: int
    content: str

    @property
    def prompt(self) -> str:
        (text,) = (p["text"] for p in self.parts if p["type"] == "text")
        return text

    @property
    def image_url(self) -> str:
        (image,) = (p["image_url"] for p in self.parts if p["type"] == "image_url")
        return image["url"]

    @property
    def parts(self) -> list[dict[str, Any]]:
        return self.body["messages"][0]["content"]


@dataclass(frozen=True)
class Response:
    """`hang` does not answer until the server closes; `drop` disconnects after half of the body;
    `drip` sends one byte every 50 ms; `gate` is called before answering, and may block; `data` is
    the body if it is not text.
    """

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False
    drip: bool = False
    gate: Callable[[], object] | None = None
    data: bytes | None = None


def completion(top: list[tuple[str, float]] | None, **changes: Any) -> dict[str, Any]:
    """The body of a chat completion whose first token has these log-probabilities."""
    content = None
    if top is not None:
        entries = [
            {"token": t, "logprob": p, "bytes": list(t.encode("utf-8", "surrogatepass"))}
            for t, p in top
        ]
        content = [entries[0] | {"top_logprobs": entries}] if entries else []
    choice = {
        "index": 0,
        "finish_reason": "length",
        "message": {"role": "assistant", "content": top[0][0] if top else None, "refusal": None},
        "logprobs": None if content is None else {"content": content, "refusal": None},
    } | changes.pop("choice", {})
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model-2025-01-01",
        "system_fingerprint": "fp_1",
        "choices": [choice],
        "usage": USAGE,
    } | changes


def answer(p_yes: float, **changes: Any) -> Response:
    """Yes with this probability and No with the rest."""
    pair = [("Yes", math.log(p_yes)), ("No", math.log1p(-p_yes))]
    pair.sort(key=lambda entry: -entry[1])
    return Response(body=json.dumps(completion(pair, **changes)))


def error(status: int, message: str, code: str | None = None, **headers: str) -> Response:
    """An error in OpenAI's format; `retry_after="1"` is a header."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, json.dumps(body), named)


def probability(request: Request) -> float:
    """A different, deterministic P(Yes) for every image and prompt."""
    digest = hashlib.sha256((request.prompt + request.image_url).encode()).digest()
    return (int.from_bytes(digest[:4], "big") + 1) / (2**32 + 2)


def by_content(request: Request) -> Response:
    return answer(probability(request))


class ChatServer:
    """Runs in threads of this process while its context is open."""

    def __init__(self, script: Callable[[Request], Response] = by_content) -> None:
        self.script = script
        self.received: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.requests: list[Request] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def __enter__(self) -> "ChatServer":
        self._http = _HTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    def _register(self, body: bytes, headers: Mapping[str, str]) -> Request:
        content = hashlib.sha256(body).hexdigest()
        with self._lock:
            self.received[content] += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            request = Request(
                json.loads(body),
                {name.lower(): value for name, value in headers.items()},
                self.received.total(),
                self.received[content],
                content,
            )
            self.requests.append(request)
        return request

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers["content-length"])
        body = handler.rfile.read(length)
        if len(body) < length:  # the client was killed while sending
            handler.close_connection = True
            return
        request = self._register(body, handler.headers)
        try:
            response = self.script(request)
            if response.gate is not None:
                response.gate()
            if response.hang:
                self._closing.wait(20)
                handler.close_connection = True
            elif self._send(handler, response):
                with self._lock:
                    self.answered[request.content] += response.status == 200
        except (BrokenPipeError, ConnectionResetError):  # the client is gone, as some tests intend
            handler.close_connection = True
        finally:
            with self._lock:
                self.at_once -= 1

    def _send(self, handler: BaseHTTPRequestHandler, response: Response) -> bool:
        data = response.body.encode() if response.data is None else response.data
        handler.send_response(response.status)
        for name, value in ({"content-type": "application/json"} | response.headers).items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        if response.drop:
            handler.wfile.write(data[: len(data) // 2])
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return False
        if response.drip:
            for byte in data:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                if self._closing.wait(0.05):
                    return False
            return True
        handler.wfile.write(data)
        handler.wfile.flush()
        return True


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256  # the default of 5 would reject many simultaneous clients

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a killed client is expected
            super().handle_error(request, client_address)


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keep connections open, as real servers do
        wbufsize = -1  # head and body in one packet; two would wait 40 ms for each other
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions", self.path
            server.serve(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
