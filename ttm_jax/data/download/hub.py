"""Files of datasets on the Hugging Face hub, over plain https.

Three addresses of its public interface are enough: `/api/datasets/<repo>/revision/<revision>` names
the commit, `/api/datasets/<repo>/tree/<commit>` lists its files with their checksums, and
`/datasets/<repo>/resolve/<commit>/<file>` is a file. `huggingface_hub` is used for the token only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urljoin

from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.http import DownloadError, Patience, get_json

_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


@dataclass(frozen=True)
class HubFile:
    path: str
    bytes: int
    url: str
    checksum: Checksum


@dataclass(frozen=True)
class Listing:
    """All files of one commit."""

    commit: str
    files: tuple[HubFile, ...]


def authorization() -> dict[str, str]:
    """The header for gated data: $HF_TOKEN, or what `hf auth login` has stored."""
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def list_files(
    endpoint: str,
    repo: str,
    headers: Mapping[str, str],
    patience: Patience,
    revision: str = "main",
) -> Listing:
    """The files of a branch as it is now; the commit is fixed, so all of them fit together."""
    api = f"{endpoint}/api/datasets/{repo}"
    info, _ = get_json(f"{api}/revision/{quote(revision, safe='')}", headers, patience)
    commit = info.get("sha") if isinstance(info, dict) else None
    if not isinstance(commit, str) or not re.fullmatch("[0-9a-f]{7,64}", commit):
        raise DownloadError(f"{api} does not say the commit of {revision}")
    found: list[HubFile] = []
    page: str | None = f"{api}/tree/{commit}?recursive=true"
    while page is not None:
        entries, answer_headers = get_json(page, headers, patience)
        if not isinstance(entries, list):
            raise DownloadError(f"{page} does not list files")
        found += [
            _file(f"{endpoint}/datasets/{repo}/resolve/{commit}", entry)
            for entry in entries
            if entry.get("type") == "file"
        ]
        following = _NEXT.search(answer_headers.get("Link") or "")
        page = urljoin(page, following[1]) if following else None
    return Listing(commit, tuple(found))


def _file(base: str, entry: dict[str, Any]) -> HubFile:
    """Large files have a SHA-256, small ones the id of their git blob."""
    path = str(entry["path"])
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\\" in path:
        raise DownloadError(f"{base} lists a file {path!r}, which would lie outside the folder")
    large = entry.get("lfs")
    checksum = Checksum("sha256", large["oid"]) if large else Checksum("git", entry["oid"])
    return HubFile(path, int(entry["size"]), f"{base}/{quote(path)}", checksum)
