"""Fixtures that imitate the sites where the benchmarks are published, on a local server."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from local_server import LocalServer, Reply, file_reply, running_server

from ttm_jax.data.download.http import Patience
from ttm_jax.data.download.options import Options
from ttm_jax.data.download.sources import HUB_REPOS, Sources

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    with running_server() as server:
        yield server


@pytest.fixture
def options(server):
    return Options(sources_of(server), patience=Patience(2, 0.0))


@pytest.fixture
def origin(tmp_path):
    """Folder for the files that a test publishes."""
    return tmp_path / "origin"


@pytest.fixture
def root(tmp_path):
    """The data directory."""
    return tmp_path / "data"


def tree_of(folder: Path) -> dict[str, bytes]:
    """The files in a folder, without the command's own bookkeeping."""
    own = {"manifest.json", ".lock"}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in own
    }


def manifest_of(root: Path, source: str) -> dict:
    return json.loads((root / source / "manifest.json").read_text())


def sources_of(server: LocalServer) -> Sources:
    return Sources(
        hub=server.url,
        github=f"{server.url}/raw",
        coco=f"{server.url}/coco",
        drive=f"{server.url}/drive",
        storage=f"{server.url}/storage",
    )


def git_id(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


def publish_on_hub(
    server: LocalServer,
    folder: Path,
    source: str,
    token: str | None = None,
    cdn: LocalServer | None = None,
    revision: str = "main",
) -> None:
    """Serve a folder as a dataset: one listing with sizes and checksums, files behind a redirect.

    JPEG and Parquet files are stored as large files (SHA-256), others as git blobs. `token`: files
    are only served to its bearer. `cdn`: another server, to which files are redirected.
    """
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    listing = listing_of(source, files)
    server.routes[listing_path(source, revision)] = lambda _: json_reply(listing)
    for name, data in files.items():
        path = file_path(source, name)
        server.routes[path] = _guarded(token, data, cdn, path)


def listing_path(source: str, revision: str = "main") -> str:
    return f"/api/datasets/{HUB_REPOS[source]}/revision/{revision}"


def file_path(source: str, name: str) -> str:
    return f"/datasets/{HUB_REPOS[source]}/resolve/{COMMIT}/{name}"


def listing_of(source: str, files: dict[str, bytes]) -> dict:
    """What the hub answers to a request for a dataset with `blobs=true`."""
    entries = [_entry(name, data) for name, data in files.items()]
    return {"id": HUB_REPOS[source], "sha": COMMIT, "private": False, "siblings": entries}


def _guarded(token, data, cdn, path):
    def route(request):
        if token is not None and request.headers.get("authorization") != f"Bearer {token}":
            status = 403 if "authorization" in request.headers else 401
            return Reply(b"restricted", status, {"X-Error-Code": "GatedRepo"})
        if cdn is None:
            return file_reply(request, data, f'"{hashlib.sha256(data).hexdigest()}"')
        cdn.serve("/cdn" + path, data)
        return Reply(status=302, headers={"Location": cdn.url + "/cdn" + path.replace(" ", "%20")})

    return route


def _entry(name: str, data: bytes) -> dict:
    entry = {"rfilename": name, "blobId": git_id(data), "size": len(data)}
    if name.endswith((".jpg", ".parquet")):
        sha256 = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 134}
    return entry


def json_reply(value: object, **headers: str) -> Reply:
    return Reply(
        json.dumps(value).encode(), headers={"Content-Type": "application/json", **headers}
    )


def publish_coco(server: LocalServer, folder: Path) -> None:
    for path in folder.iterdir():
        server.serve(f"/coco/val2017/{path.name}", path.read_bytes())


def tar_gz(folder: Path) -> bytes:
    """A folder packed as by `tar czf`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(folder, folder.name)
    return buffer.getvalue()


def publish_on_drive(
    server: LocalServer, files: dict[str, bytes], behind_a_form: tuple[str, ...] = ()
) -> None:
    """Google Drive: small files directly, large ones behind a confirmation page."""
    visits = iter(range(10**6))

    def download(request):
        file_id = request.query["id"]
        if file_id not in files:
            return Reply(b"<html>Quota exceeded</html>", headers={"Content-Type": "text/html"})
        if file_id in behind_a_form and "uuid" not in request.query:
            return Reply(
                _form(server, file_id, next(visits)), headers={"Content-Type": "text/html"}
            )
        data = files[file_id]
        named = {"Content-Disposition": f'attachment; filename="{file_id}"'}
        return file_reply(request, data, None, named)  # Drive sends no ETag

    server.routes["/drive/download"] = download


def _form(server: LocalServer, file_id: str, visit: int) -> bytes:
    return f"""<!DOCTYPE html><html><head><title>Google Drive - Virus scan warning</title></head>
    <body><form action="/search"><input type="hidden" name="no" value="no"></form>
    <p>too large for Google to scan for viruses</p>
    <form id="download-form" action="{server.url}/drive/download" method="get">
    <input type="submit" id="uc-download-link" value="Download anyway"/>
    <input type="hidden" name="id" value="{file_id}"><input type="hidden" name="export"
    value="download"><input type="hidden" name="confirm" value="t">
    <input type="hidden" name="uuid" value="{visit}&amp;x"></form>
    </body></html>""".encode()
