"""A web server on the loopback: it serves what a test gives it, with the faults it asks for."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """`cut`: close the connection after so many bytes; `wait`: but only when this is set."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    wait: threading.Event | None = None


Route = Callable[[Request], Reply]


class LocalServer:
    """Routes are looked up by path; every request is kept in `seen`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.routes: dict[str, Route] = {}
        self.seen: list[Request] = []

    def serve(self, path: str, body: bytes, etag: str | None = '"v1"', **extra: str) -> None:
        self.routes[path] = lambda request: file_reply(request, body, etag, extra)

    def asked(self, path: str) -> list[dict[str, str]]:
        """The headers of every request for a path."""
        return [request.headers for request in self.seen if request.path == path]


def file_reply(
    request: Request, body: bytes, etag: str | None = '"v1"', headers: dict[str, str] | None = None
) -> Reply:
    """A file as careful servers send it: ranges, and If-Range against the ETag."""
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
def running_server() -> Iterator[LocalServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            request = Request(
                unquote(parts.path),
                {name: values[0] for name, values in parse_qs(parts.query).items()},
                {name.lower(): value for name, value in self.headers.items()},
            )
            server.seen.append(request)
            route = server.routes.get(request.path, lambda _: Reply(b"no such page", 404))
            self._send(route(request))

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
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
    server = LocalServer(f"http://127.0.0.1:{httpd.server_port}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
