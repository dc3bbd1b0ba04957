"""Public files on Google Drive.

A file that is too large for Drive's virus scan is not sent at once: first comes a page with a form
("Download anyway"), whose hidden fields make the address of the file. The same page, without the
form, is how Drive says that a file was fetched too often today.
"""

from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode, urljoin

from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import DownloadError, Passing, Patience, describe, open_url, retry
from ttm_jax.data.download.progress import Bar, no_bar

_LARGEST_PAGE = 1 << 20


def page_of(file_id: str) -> str:
    """Where a person can fetch the file."""
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
    def look() -> str | None:
        with open_url(url) as response:
            if response.headers.get_content_type() != "text/html":
                return None
            try:
                return response.read(_LARGEST_PAGE).decode("utf-8", "replace")
            except (OSError, HTTPException) as error:
                raise Passing(f"{url}: {describe(error)}") from error

    page = retry(look, patience)
    if page is None:
        return url
    form = _Form()
    form.feed(page)
    if form.action is None:
        raise DownloadError(
            f"Google Drive does not send file {file_id}, often because it was fetched too often "
            "today; try again tomorrow"
        )
    separator = "&" if "?" in form.action else "?"
    return urljoin(url, form.action + (separator + urlencode(form.fields) if form.fields else ""))


class _Form(HTMLParser):
    """The first form that leads to a download, with its hidden fields."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        action = values.get("action")
        if tag == "form" and self.action is None and action and "download" in action:
            self.action, self._inside = action, True
        name = values.get("name")
        if tag == "input" and self._inside and name and values.get("type") == "hidden":
            self.fields[name] = values.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
