"""Opening a URL with care for where a token goes, and errors sorted by what can be done."""

import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ttm_jax.errors import InputError

Result = TypeVar("Result")
_TIMEOUT = 60.0  # seconds without a byte
_LARGEST_PAGE = 64 << 20  # bytes of an answer that is read into memory


class DownloadError(InputError):
    """A download that cannot go on; the same command continues it later."""


class AccessDenied(DownloadError):
    """The server knows the file but does not give it to us (401, 403)."""


class Passing(Exception):
    """Trouble that may be over in a moment: try again."""


class RangeRefused(Exception):
    """416: the file is not as long as what we already have; `total` is its length if said."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total)
        self.total = total


@dataclass(frozen=True)
class Patience:
    """How often to try again when nothing comes, and how long to wait (doubled every time)."""

    tries: int = 5
    pause: float = 1.0

    def wait(self, failures: int) -> None:
        time.sleep(self.pause * 2 ** (failures - 1))


class _CarefulRedirects(urllib.request.HTTPRedirectHandler):
    """Never from https to http, and a token is for the host that it was given for only."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("http", "https") or (old.scheme, new.scheme) == ("https", "http"):
            raise DownloadError(f"{req.full_url} redirects to {newurl}, which is not secure")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (old.scheme, old.netloc) != (new.scheme, new.netloc):
            request.remove_header("Authorization")
        return request


@cache
def _opener() -> urllib.request.OpenerDirector:
    """One for all threads; it takes proxies from the environment."""
    return urllib.request.build_opener(_CarefulRedirects)


def open_url(url: str, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """The answer to a GET; the caller closes it. Raises what this module defines."""
    request = urllib.request.Request(url, headers={"User-Agent": "ttm_jax", **(headers or {})})
    try:
        return _opener().open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            raise _http_error(url, error) from error
    except urllib.error.URLError as error:
        raise _network_error(url, error.reason) from error
    except (OSError, HTTPException) as error:
        raise _network_error(url, error) from error


def retry(action: Callable[[], Result], patience: Patience) -> Result:
    """Call until it works or patience is over."""
    failures = 0
    while True:
        try:
            return action()
        except Passing as error:
            failures += 1
            if failures >= patience.tries:
                raise DownloadError(f"{error} (tried {failures} times)") from error
        patience.wait(failures)


def get_page(url: str, headers: Mapping[str, str], patience: Patience) -> tuple[bytes, Any]:
    """A small answer and its headers."""

    def read() -> tuple[bytes, Any]:
        with open_url(url, headers) as response:
            try:
                return response.read(_LARGEST_PAGE), response.headers
            except (OSError, HTTPException) as error:
                raise Passing(f"{url}: {describe(error)}") from error

    return retry(read, patience)


def get_json(url: str, headers: Mapping[str, str], patience: Patience) -> tuple[Any, Any]:
    """A JSON answer and its headers."""
    text, answer_headers = get_page(url, headers, patience)
    try:
        return json.loads(text), answer_headers
    except ValueError as error:
        raise DownloadError(f"{url} answers something that is not JSON") from error


def describe(error: object) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _http_error(url: str, error: urllib.error.HTTPError) -> Exception:
    if error.code in (401, 403):
        return AccessDenied(f"{url} is not given to us ({error.code} {error.reason})")
    if error.code == 416:
        total = (error.headers.get("Content-Range") or "").rpartition("/")[2]
        return RangeRefused(int(total) if total.isdecimal() else None)
    if error.code in (408, 429) or error.code >= 500:
        return Passing(f"{url}: the server answers {error.code} {error.reason}")
    if error.code in (404, 410):
        return DownloadError(f"{url} does not exist ({error.code})")
    return DownloadError(f"{url}: the server answers {error.code} {error.reason}")


def _network_error(url: str, reason: object) -> Exception:
    """No network and a refused certificate do not pass in a moment; a lost connection may."""
    host = urlsplit(url).netloc
    if isinstance(reason, socket.gaierror | ConnectionRefusedError):
        return DownloadError(f"{host} cannot be reached ({describe(reason)}): is there a network?")
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DownloadError(f"{host} has a certificate that is not trusted ({reason.reason})")
    if isinstance(reason, OSError | HTTPException):
        return Passing(f"{url}: {describe(reason)}")
    return DownloadError(f"{url} cannot be opened: {reason}")
