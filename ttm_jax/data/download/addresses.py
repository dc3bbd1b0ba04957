"""Rules for addresses: which may be opened, and where an answer may send us next."""

import re
from ipaddress import ip_address
from pathlib import PurePosixPath
from urllib.parse import SplitResult, urljoin, urlsplit

_SCHEMES = ("http", "https")


def check_address(url: str) -> str | None:
    """Why a URL is not opened, or None."""
    parts = _split(url)
    if parts is None or parts.scheme not in _SCHEMES or not parts.hostname:
        return f"{shown(url)} is not an address that can be fetched; expected https://..."
    return None


def check_move(old: str, new: str) -> str | None:
    """Why a server at `old` may not send us to `new`, or None.

    Not to other protocols, not from https to http, and not from the internet to this machine or its
    network, where servers may trust whoever can reach them.
    """
    before, after = _split(old), _split(new)
    if after is None or after.scheme not in _SCHEMES or not after.hostname:
        return f"{shown(old)} redirects to {shown(new)}, which is not a web address"
    if before is not None and (before.scheme, after.scheme) == ("https", "http"):
        return f"{shown(old)} redirects to {shown(new)}, which is not secure"
    if is_local(after.hostname) and not (before is not None and is_local(before.hostname or "")):
        return f"{shown(old)} redirects to {shown(new)}, which is in the local network"
    return None


def is_same_host(one: str, other: str) -> bool:
    """Whether scheme, host and port are the same."""
    a, b = _split(one), _split(other)
    return a is not None and b is not None and (a.scheme, a.netloc) == (b.scheme, b.netloc)


def is_local(host: str) -> bool:
    """Whether a host name or IP address means this machine or its network, without asking DNS."""
    name = host.rstrip(".").lower()
    try:
        return not ip_address(name).is_global
    except ValueError:
        last = name.rpartition(".")[2]
        # Resolvers also take 2130706433 and 0x7f.1 for IP addresses.
        odd = re.fullmatch(r"0x[0-9a-f]*|[0-9]+", last) is not None
        return odd or "." not in name or last in ("localhost", "local", "internal", "lan")


def joined(page: str, link: str) -> str:
    """Where a link on a page leads; a link that is no address leads to itself."""
    try:
        return urljoin(page, link)
    except ValueError:
        return link


def shown(url: str) -> str:
    """A URL for a message: without a password, and without a query, which may be a signature."""
    parts = _split(url)
    if parts is None or not parts.scheme:
        return url[:200]
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def safe_path(name: str) -> PurePosixPath | None:
    """A name from a listing or an archive as a path inside a folder; None if it may lead out."""
    path = PurePosixPath(name)
    refused = any(letter in "\\:\0" or ord(letter) < 32 for letter in name)
    if not name or refused or path.is_absolute() or ".." in path.parts:
        return None
    return path


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        return None
    return parts
