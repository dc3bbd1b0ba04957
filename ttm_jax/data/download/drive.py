"""Public files on Google Drive.

A file that is too large for Drive's virus scan is not sent at once: first comes a page with a form
("Download anyway"), whose hidden fields make up the address of the file. A page without that form
is how Drive says that a file was fetched too often today, or that it is not public.
"""

from contextlib import suppress
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from ttm_jax.data.download.addresses import check_move, is_same_host, joined, shown
from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import DownloadError, Passing, Patience, describe, open_url, retry
from ttm_jax.data.download.progress import Bar, no_bar

_LARGEST_PAGE = 1 << 17  # the real ones have 2 to 3 kB
_MOST_FIELDS = 50
_GOOGLE = ("google.com", "googleusercontent.com")


def page_of(file_id: str) -> str:
    """Where a person can download the file."""
    return f"https://drive.google.com/file/d/{file_id}/view"


def fetch_from_drive(
    base: str,
    file_id: str,
    target: Path,
    *,
    checksum: Checksum | None = None,
    bar: Bar = no_bar,
    patience: Patience | None = None,
) -> None:
    """Put the file at `target`."""
    query = urlencode({"id": file_id, "export": "download", "confirm": "t"})
    url = _behind_the_form(f"{base}/download?{query}", file_id, patience or Patience())
    # The form's address is another one every time; the file is the same.
    identity = f"drive:{file_id}"
    fetch(url, target, checksum=checksum, identity=identity, bar=bar, patience=patience)


def _behind_the_form(url: str, file_id: str, patience: Patience) -> str:
    def look() -> tuple[str, str] | None:
        with open_url(url) as response:
            if response.headers.get_content_type() != "text/html":
                return None
            try:
                page = response.read(_LARGEST_PAGE).decode("utf-8", "replace")
            except (OSError, HTTPException) as error:
                raise Passing(f"{shown(url)}: {describe(error)}") from error
            return response.geturl(), page

    found = retry(look, patience)
    if found is None:
        return url
    address, page = found
    form = _Form()
    with suppress(AssertionError):  # html.parser on declarations that do not exist
        form.feed(page)
    if form.action is None:
        raise DownloadError(f"Google Drive does not send file {file_id}: {_reason(address, page)}")
    action = joined(address, form.action)
    if form.method != "get" or not _may_lead_to(address, action):
        raise DownloadError(
            f"Google Drive asks for file {file_id} in a new way (a form to {shown(action)}), which "
            "this version does not know"
        )
    separator = "&" if "?" in action else "?"
    return action + (separator + urlencode(form.fields) if form.fields else "")


def _may_lead_to(page: str, action: str) -> bool:
    """The same host, or from one of Google's hosts to another."""
    if check_move(page, action) is not None:
        return False
    return is_same_host(page, action) or (_is_google(page) and _is_google(action))


def _is_google(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return any(host == name or host.endswith(f".{name}") for name in _GOOGLE)


def _reason(address: str, page: str) -> str:
    text = page.lower()
    if "quota" in text or "too many users" in text:
        return "it was fetched too often today; try again tomorrow"
    if "accounts.google.com" in address or "you need access" in text:
        return "it asks for a login, so the file is no longer public"
    return "it answers with a page that this version does not know; try again tomorrow"


class _Form(HTMLParser):
    """The first form that leads to a download, with its hidden fields."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.method = "get"
        self.fields: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        action = values.get("action")
        if tag == "form" and self.action is None and action and "download" in action:
            self.action, self._inside = action, True
            self.method = (values.get("method") or "get").lower()
        name = values.get("name")
        is_hidden = tag == "input" and self._inside and values.get("type") == "hidden"
        if is_hidden and name and len(self.fields) < _MOST_FIELDS:
            self.fields[name] = values.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
