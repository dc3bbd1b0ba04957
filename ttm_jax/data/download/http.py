"""Opening a URL: where redirects may lead, who gets a token, and what each error means."""

import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ttm_jax.data.download.addresses import check_address, check_move, is_same_host, shown
from ttm_jax.errors import InputError

Result = TypeVar("Result")
_CONNECT = 20.0  # seconds until a server must have accepted the connection
_SILENCE = 60.0  # seconds without a byte
_sockets: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


class DownloadError(InputError):
    """A download that cannot continue; rerunning the same command resumes it."""


class AccessDenied(DownloadError):
    """The server knows the file but does not give it to us (401, 403)."""


class Passing(Exception):
    """Trouble that may be over in a moment: try again."""


class RangeRefused(Exception):
    """416: the file is shorter than what we already have."""


@dataclass(frozen=True)
class Patience:
    """How often to try again when nothing arrives, and how long to wait (doubled every time)."""

    tries: int = 5
    pause: float = 1.0
    stop: threading.Event | None = None
    """Ends the waiting, and the download."""

    def wait(self, failures: int) -> None:
        seconds = self.pause * 2 ** (failures - 1)
        if self.stop is None:
            time.sleep(seconds)
        elif self.stop.wait(seconds):
            raise DownloadError("stopped, because another file failed")


class _CarefulRedirects(urllib.request.HTTPRedirectHandler):
    """A few redirects at most, and a token only for the host that it was meant for."""

    max_redirections = 6
    max_repeats = 2

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except urllib.error.HTTPError:
            raise  # it carries the answer, which `open_url` closes
        except BaseException:
            fp.close()  # nobody else has the answer
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if problem := check_move(req.full_url, newurl):
            raise DownloadError(problem)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and not is_same_host(req.full_url, newurl):
            request.remove_header("Authorization")
            request.remove_header("Cookie")
        return request


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _remember(self.sock)


class _SecureConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _remember(self.sock)


class _HTTPHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def __init__(self) -> None:
        super().__init__()
        self._trusted = ssl.create_default_context()
        self._trusted.set_alpn_protocols(["http/1.1"])

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req, context=self._trusted)


@cache
def _opener() -> urllib.request.OpenerDirector:
    """One for all threads; it takes proxies from the environment. No ftp, no file, no data."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _CarefulRedirects(),
        _HTTPHandler(),
        _HTTPSHandler(),
    ):
        opener.add_handler(handler)
    return opener


def open_url(url: str, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """The answer to a GET; the caller closes it. Raises what this module defines."""
    if problem := check_address(url):
        raise DownloadError(problem)
    request = urllib.request.Request(url, headers={"User-Agent": "ttm_jax", **(headers or {})})
    try:
        return _opener().open(request, timeout=_CONNECT)
    except urllib.error.HTTPError as error:
        with error:
            raise _http_error(url, error) from error
    except urllib.error.URLError as error:
        raise network_error(url, error.reason) from error
    except InputError:
        raise
    except (OSError, HTTPException, ValueError) as error:
        raise network_error(url, error) from error


def hang_up() -> None:
    """End all open connections, so that no thread keeps waiting for a silent server."""
    for connection in list(_sockets):
        with suppress(OSError, ValueError):
            connection.shutdown(socket.SHUT_RDWR)


def retry(action: Callable[[], Result], patience: Patience) -> Result:
    """Call `action` until it works or patience runs out."""
    failures = 0
    while True:
        try:
            return action()
        except Passing as error:
            failures += 1
            if failures >= patience.tries:
                raise DownloadError(f"{error} (tried {failures} times)") from error
        patience.wait(failures)


def status_error(url: str, status: int, reason: str) -> Exception:
    """What a status of 400 or more means for us."""
    answer = f"{status} {reason}".strip()
    if status in (401, 403):
        return AccessDenied(f"{shown(url)} is not given to us ({answer})")
    if status == 416:
        return RangeRefused()
    if status in (408, 429) or status >= 500:
        return Passing(f"{shown(url)}: the server answers {answer}")
    if status in (404, 410):
        return DownloadError(f"{shown(url)} does not exist ({status})")
    return DownloadError(f"{shown(url)}: the server answers {answer}")


def network_error(url: str, reason: object) -> Exception:
    """No network and a refused certificate do not pass in a moment; a lost connection may."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    if isinstance(reason, socket.gaierror | ConnectionRefusedError):
        return DownloadError(f"{host} cannot be reached ({describe(reason)}): is there a network?")
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DownloadError(f"{host} has a certificate that is not trusted ({reason.reason})")
    if isinstance(reason, ValueError):  # an address that http.client refuses to send
        return DownloadError(f"{shown(url)} cannot be asked for: {describe(reason)}")
    if isinstance(reason, OSError | HTTPException):
        return Passing(f"{shown(url)}: {describe(reason)}")
    return DownloadError(f"{shown(url)} cannot be opened: {reason}")


def describe(error: object) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def whole_number(text: str | None) -> int | None:
    """A number in a header; None if it is none, or absurdly long."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _http_error(url: str, error: urllib.error.HTTPError) -> Exception:
    if 300 <= error.code < 400:  # urllib gave up: a circle, too many, or nowhere
        return DownloadError(f"{shown(url)} redirects too often, or to nowhere ({error.code})")
    return status_error(url, error.code, str(error.reason))


def _remember(connection: socket.socket) -> None:
    connection.settimeout(_SILENCE)
    _sockets.add(connection)
