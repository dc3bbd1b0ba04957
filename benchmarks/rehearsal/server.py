"""The sites that the commands download from, on the loopback: files are sent from the disk.

- The Hugging Face hub: listings of models and datasets with sizes and checksums, `resolve`
  addresses for GET and HEAD, large files behind a redirect, pull requests, and gated datasets.
- raw.githubusercontent.com, COCO's images, and Google Drive with its page before large files.
"""

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

TOKEN = "hf_rehearsal"  # what gated datasets ask for here
_LARGE = (".safetensors", ".parquet", ".jpg", ".bin")
_REPO = r"[^/]+/[^/]+"


@dataclass
class Site:
    """What is served. Revisions are folders; the commit of one is made from its name."""

    models: dict[str, dict[str, Path]] = field(default_factory=dict)
    datasets: dict[str, dict[str, Path]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    github: dict[str, Path] = field(default_factory=dict)
    """Path in the repository's address -> file."""
    coco: Path | None = None
    drive: dict[str, Path] = field(default_factory=dict)
    """Id -> file; archives come after a page with a form."""
    url: str = ""
    cdn: str = ""
    """The host of large files; huggingface_hub takes another host for another service."""
    requests: int = 0

    def environment(self) -> dict[str, str]:
        """The settings that lead a command here."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": TOKEN,
            "TTM_JAX_GITHUB": f"{self.url}/raw",
            "TTM_JAX_COCO": f"{self.url}/coco",
            "TTM_JAX_DRIVE": f"{self.url}/drive",
            "NO_PROXY": "127.0.0.1,localhost",
        }


def commit_of(repo: str, revision: str) -> str:
    return hashlib.sha1(f"{repo} {revision}".encode()).hexdigest()


@cache
def checksums(path: Path) -> tuple[str, str]:
    """SHA-256, and the id of a git blob."""
    sha256, git = hashlib.sha256(), hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
            git.update(block)
    return sha256.hexdigest(), git.hexdigest()


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        self.site.requests += 1
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if found := re.fullmatch(rf"/api/(models|datasets)/({_REPO})/revision/(.+)", path):
            self._listing(found[1], found[2], found[3])
        elif found := re.fullmatch(rf"/api/models/({_REPO})/tree/(.+)", path):
            self._tree(found[1], found[2])
        elif found := re.fullmatch(rf"/api/models/({_REPO})/discussions", path):
            self._discussions(found[1])
        elif found := re.fullmatch(rf"/(datasets/)?({_REPO})/resolve/([^/]+)/(.+)", path):
            self._resolve("datasets" if found[1] else "models", found[2], found[3], found[4])
        elif found := re.fullmatch(rf"/cdn/(models|datasets)/({_REPO})/([0-9a-f]+)/(.+)", path):
            folder = self._folder(found[1], found[2], found[3])
            self._file(None if folder is None else folder / found[4])
        elif path.startswith("/raw/"):
            self._file(self.site.github.get(path.removeprefix("/raw/")))
        elif path.startswith("/coco/val2017/") and self.site.coco is not None:
            self._file(self.site.coco / Path(path).name)
        elif path == "/drive/download":
            self._drive(query)
        else:
            self._send(404, b"no such page")

    do_HEAD = do_GET

    def _revisions(self, kind: str, repo: str) -> dict[str, Path]:
        return (self.site.models if kind == "models" else self.site.datasets).get(repo, {})

    def _folder(self, kind: str, repo: str, name: str) -> Path | None:
        """By branch or by commit."""
        revisions = self._revisions(kind, repo)
        commits = {commit_of(repo, revision): path for revision, path in revisions.items()}
        return revisions.get(name) or commits.get(name)

    def _listing(self, kind: str, repo: str, revision: str) -> None:
        folder = self._folder(kind, repo, revision)
        if folder is None:
            code = "RevisionNotFound" if self._revisions(kind, repo) else "RepoNotFound"
            self._send(404, b"{}", {"X-Error-Code": code})
            return
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        with_blobs = kind == "datasets"
        siblings = [_entry(path, folder, with_blobs) for path in files]
        sha = revision if re.fullmatch("[0-9a-f]{40}", revision) else commit_of(repo, revision)
        self._json({"id": repo, "sha": sha, "private": False, "siblings": siblings})

    def _tree(self, repo: str, revision: str) -> None:
        folder = self._folder("models", repo, revision)
        if folder is None:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        self._json([_leaf(path, folder) for path in sorted(folder.iterdir())])

    def _discussions(self, repo: str) -> None:
        pulls = [int(Path(name).name) for name in self._revisions("models", repo) if "/" in name]
        common = {
            "title": "Adding `safetensors` variant of this model",
            "author": {"name": "SFconvertbot"},
            "createdAt": "2023-01-01T00:00:00.000Z",
            "status": "open",
            "isPullRequest": True,
            "repo": {"name": repo, "type": "model"},
        }
        found = [{"num": number, **common} for number in pulls]
        self._json({"discussions": found, "count": len(found), "start": 0})

    def _resolve(self, kind: str, repo: str, revision: str, name: str) -> None:
        if repo in self.site.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, b"restricted", {"X-Error-Code": "GatedRepo"})
            return
        folder = self._folder(kind, repo, revision)
        path = None if folder is None else folder / name
        if path is None or not path.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        known = commit_of(repo, revision) if len(revision) != 40 else revision
        said = {"X-Repo-Commit": known}
        if path.suffix not in _LARGE:
            self._file(path, said)
            return
        said["X-Linked-Size"] = str(path.stat().st_size)
        said["X-Linked-Etag"] = f'"{checksums(path)[0]}"'
        said["Location"] = f"{self.site.cdn}/cdn/{kind}/{repo}/{known}/{quote(name)}"
        self._send(302, b"", said)

    def _drive(self, query: dict[str, str]) -> None:
        path = self.site.drive.get(query.get("id", ""))
        if path is None:
            self._send(200, b"<html>You need access</html>", {"Content-Type": "text/html"})
        elif path.suffix == ".gz" and "uuid" not in query:
            hidden = {**query, "uuid": str(self.site.requests)}
            fields = "".join(
                f'<input type="hidden" name="{k}" value="{v}">' for k, v in hidden.items()
            )
            page = f'<form action="{self.site.url}/drive/download" method="get">{fields}</form>'
            self._send(200, page.encode(), {"Content-Type": "text/html"})
        else:
            self._file(path)

    def _file(self, path: Path | None, headers: dict[str, str] | None = None) -> None:
        if path is None or not path.is_file():
            self._send(404, b"no such file")
            return
        size, begin, status = path.stat().st_size, 0, 200
        said = {"ETag": f'"{checksums(path)[0]}"', **(headers or {})}
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            begin, status = int(found[1]), 206
            said["Content-Range"] = f"bytes {begin}-{size - 1}/{size}"
        self._start(status, size - begin, {"Content-Type": "application/octet-stream", **said})
        if self.command == "GET":
            with path.open("rb") as file:
                file.seek(begin)
                shutil.copyfileobj(file, self.wfile, 1 << 20)

    def _json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self._start(status, len(body), headers or {})
        if self.command == "GET":
            self.wfile.write(body)

    def _start(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def _entry(path: Path, folder: Path, with_blobs: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"rfilename": path.relative_to(folder).as_posix()}
    if with_blobs:
        (sha256, git), size = checksums(path), path.stat().st_size
        entry |= {"blobId": git, "size": size}
        if path.suffix in _LARGE:
            entry["lfs"] = {"sha256": sha256, "size": size, "pointerSize": 134}
    return entry


def _leaf(path: Path, folder: Path) -> dict[str, Any]:
    (sha256, git), size = checksums(path), path.stat().st_size
    leaf = {"type": "file", "path": path.relative_to(folder).as_posix(), "size": size, "oid": git}
    if path.suffix in _LARGE:
        leaf["lfs"] = {"oid": sha256, "size": size, "pointerSize": 134}
    return leaf


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve in a thread; `site.url` is its address."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    httpd.daemon_threads = True
    httpd.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client was killed
    site.url = f"http://127.0.0.1:{httpd.server_port}"
    site.cdn = f"http://localhost:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
