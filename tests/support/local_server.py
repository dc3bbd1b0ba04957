"""A web server on the loopback interface that serves given content, with requested faults."""

import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Reply:
    """`cut`: close the connection after so many bytes; `wait`: but only when this is set.

    `stream`: send these pieces instead of `body`, with no word about the length.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    wait: threading.Event | None = None
    stream: Iterable[bytes] | None = None


Route = Callable[[Request], Reply]


class LocalServer:
    """Routes are looked up by path; every request is recorded in `seen`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.routes: dict[str, Route] = {}
        self.seen: list[Request] = []
        self.sent = 0  # bytes of streams

    def serve(self, path: str, body: bytes, etag: str | None = '"v1"', **extra: str) -> None:
        self.routes[path] = lambda request: file_reply(request, body, etag, extra)

    def asked(self, path: str) -> list[dict[str, str]]:
        """The headers of every request for a path."""
        return [request.headers for request in self.seen if request.path == path]


def file_reply(
    request: Request, body: bytes, etag: str | None = '"v1"', headers: dict[str, str] | None = None
) -> Reply:
    """Serve a file like a full HTTP server: with ranges, and If-Range against the ETag."""
    said = {"Content-Type": "application/octet-stream", **(headers or {})}
    if etag is not None:
        said["ETag"] = etag
    wanted = request.headers.get("range")
    fresh = request.headers.get("if-range", etag) == etag
    if wanted is None or not fresh:
        return Reply(body, headers=said)
    start = int(wanted.removeprefix("bytes=").removesuffix("-"))
    if start >= len(body):
        return Reply(b"", 416, {"Content-Range": f"bytes */{len(body)}"})
    said["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
    return Reply(body[start:], 206, said)


@contextmanager
def running_server(tls: ssl.SSLContext | None = None) -> Iterator[LocalServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def do_GET(self) -> None:
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            parts = urlsplit(self.path)
            request = Request(
                unquote(parts.path),
                {name: values[0] for name, values in parse_qs(parts.query).items()},
                {name.lower(): value for name, value in self.headers.items()},
                body,
            )
            server.seen.append(request)
            route = server.routes.get(request.path, lambda _: Reply(b"no such page", 404))
            self._send(route(request))

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            length = {} if reply.stream is not None else {"Content-Length": str(len(reply.body))}
            for name, value in {**length, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in reply.stream or ():
                self.wfile.write(piece)
                server.sent += len(piece)
            self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
            self.wfile.flush()
            if reply.wait is not None:
                reply.wait.wait(30)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.handle_error = lambda *_: None  # a client that was killed is no news
    if tls is not None:
        httpd.socket = tls.wrap_socket(httpd.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    server = LocalServer(f"{scheme}://127.0.0.1:{httpd.server_port}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
