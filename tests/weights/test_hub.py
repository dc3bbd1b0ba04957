"""Resolving model names to local paths, with a local stand-in for the Hugging Face hub."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import numpy as np
import pytest
from paths import TESTS

from ttm_jax.errors import InputError
from ttm_jax.weights import big_vision, hub

GOLDEN = TESTS / "golden"
MAIN, PINNED, CONVERTED = "a" * 40, "b" * 40, "c" * 40
CONFIG = (GOLDEN / "huggingface_siglip" / "config.json").read_bytes()
WEIGHTS = (GOLDEN / "huggingface_siglip" / "model.safetensors").read_bytes()
UNWANTED = {
    "pytorch_model.bin": b"pickle",
    "flax_model.msgpack": b"msgpack",
    "tf_model.h5": b"h5",
    "onnx/model.safetensors": b"another runtime",
    "open_clip_model.safetensors": b"another library",
    "README.md": b"text",
}
GOOD = {
    "config.json": CONFIG,
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b"{}",
    "merges.txt": b"",
    "spiece.model": b"",
}
# repository -> revision -> (commit, files)
REPOSITORIES: dict[str, dict[str, tuple[str, dict[str, bytes]]]] = {
    "some/siglip": {
        "main": (MAIN, {**GOOD, **UNWANTED}),
        "v1": (PINNED, {**GOOD, "tokenizer.json": b'{"v": 1}'}),
    },
    "some/pickled": {
        "main": (MAIN, {"config.json": CONFIG, "pytorch_model.bin": b"pickle"}),
        "refs/pr/7": (MAIN, {**GOOD, "model.safetensors": b"by somebody else"}),
        "refs/pr/9": (CONVERTED, GOOD),
    },
    "some/big-vision": {"main": (MAIN, {"siglip2_b16.npz": b"npz", "README.md": b"text"})},
    # timm's image tower beside OpenCLIP's files; its config.json has no model_type.
    "some/open-clip": {
        "main": (
            MAIN,
            {
                "open_clip_config.json": b"{}",
                "open_clip_model.safetensors": b"open_clip",
                "open_clip_pytorch_model.bin": b"pickle",
                "config.json": b'{"architecture": "vit_base_patch32_clip_224"}',
                "tokenizer.json": b"{}",
            },
        )
    },
    "some/unconverted": {"main": (MAIN, {"config.json": CONFIG, "pytorch_model.bin": b"pickle"})},
    "some/nothing": {"main": (MAIN, {"README.md": b"text"})},
    "some/gated": {},
}


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's protocol that a download needs."""

    def do_GET(self) -> None:
        path = self.path.split("?")[0].replace("%2F", "/")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/discussions", path):
            self._discussions(found[1])
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path):
            self._listing(found[1], found[3] or "main", tree=found[2] == "tree")
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            commit, files = self._revision(found[1], found[2])
            headers = {"ETag": f'"{abs(hash(files[found[3]]))}"', "X-Repo-Commit": commit}
            self._send(200, files[found[3]], headers)
        else:
            self._send(404, b"")

    do_HEAD = do_GET

    def _revision(self, repo: str, name: str) -> tuple[str, dict[str, bytes]]:
        revisions = REPOSITORIES[repo]
        return next((r for r in revisions.values() if r[0] == name), None) or revisions[name]

    def _listing(self, repo: str, name: str, tree: bool) -> None:
        if repo == "some/gated":
            return self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        if repo not in REPOSITORIES:
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        try:
            commit, files = self._revision(repo, name)
        except KeyError:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        if tree:
            entries = [
                {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
                for path, data in files.items()
            ]
            return self._json(entries)
        siblings = [{"rfilename": path} for path in files]
        return self._json({"id": repo, "sha": commit, "siblings": siblings})

    def _discussions(self, repo: str) -> None:
        pulls = [int(r.removeprefix("refs/pr/")) for r in REPOSITORIES[repo] if "refs/pr/" in r]
        found = [
            {
                "num": num,
                "title": "Adding `safetensors` variant of this model",
                "author": {"name": "SFconvertbot" if num == 9 else "somebody"},
                "createdAt": "2023-01-01T00:00:00.000Z",
                "status": "open",
                "isPullRequest": True,
                "repo": {"name": repo, "type": "model"},
            }
            for num in pulls
        ]
        self._json({"discussions": found, "count": len(found), "start": 0})

    def _json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("huggingface")


def resolve_all(calls: list[dict], home: Path, endpoint: str, offline: str = "0") -> list[str]:
    """Run in a new process, because huggingface_hub reads its settings on import."""
    code = (
        "import json, sys\n"
        "from ttm_jax.errors import InputError\n"
        "from ttm_jax.weights import hub\n"
        "for call in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        print(json.dumps(str(hub.resolve(**call))))\n"
        "    except InputError as error:\n"
        "        print(json.dumps('error: ' + str(error)))\n"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": offline,
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(calls)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_online_then_offline(home, endpoint):
    (
        good,
        pinned,
        pickled,
        converted,
        unconverted,
        arrays,
        nothing,
        gated,
        unknown,
        revision,
    ) = resolve_all(
        [
            {"source": "some/siglip"},
            {"source": "some/siglip", "revision": "v1"},
            {"source": "some/pickled"},
            {"source": "some/pickled", "revision": "refs/pr/9"},
            {"source": "some/unconverted"},
            {"source": "some/big-vision"},
            {"source": "some/nothing"},
            {"source": "some/gated"},
            {"source": "some/unknown"},
            {"source": "some/siglip", "revision": "v7"},
        ],
        home,
        endpoint,
    )
    downloaded = {str(p.relative_to(good)): p.read_bytes() for p in Path(good).rglob("*.*")}
    assert downloaded == GOOD, "what is needed, and nothing else"
    assert Path(pinned).name == PINNED
    assert (Path(pinned) / "tokenizer.json").read_bytes() == b'{"v": 1}'
    assert pickled == converted, "the hub's own conversion is found by itself"
    assert (Path(converted) / "model.safetensors").read_bytes() == WEIGHTS
    assert re.search(
        r"error: some/unconverted .*only in pytorch_model\.bin.*never loaded", unconverted
    )
    assert Path(arrays).name == "siglip2_b16.npz"
    assert nothing.startswith("error: some/nothing has neither model.safetensors nor")
    assert re.search(r"error: some/gated is gated: accept its terms.*HF_TOKEN", gated)
    assert re.search(r"error: some/unknown is neither a path here nor a model", unknown)
    assert revision == "error: the hub has some/siglip, but not its revision v7"

    # Downloaded models are found again without a network; others are reported as missing.
    again, still, missing = resolve_all(
        [{"source": "some/siglip"}, {"source": "some/pickled"}, {"source": "some/other"}],
        home,
        endpoint,
        offline="1",
    )
    assert again == good
    assert still == converted
    assert re.search(r"error: some/other is not a path here .* offline mode is on", missing)
    asked, asked_pickled, missing = resolve_all(
        [
            {"source": "some/siglip", "revision": "v1", "offline": True},
            {"source": "some/pickled", "offline": True},
            {"source": "some/other", "offline": True},
        ],
        home,
        endpoint,
    )
    assert asked == pinned
    assert asked_pickled == converted
    assert "offline mode is on" in missing


def test_open_clip_weights_are_downloaded_only_where_they_are_used(home, endpoint):
    (folder,) = resolve_all([{"source": "some/open-clip"}], home, endpoint)
    names = {path.name for path in Path(folder).iterdir()}
    files = {"config.json", "tokenizer.json", "open_clip_config.json"}
    assert names == {*files, "open_clip_model.safetensors"}
    assert resolve_all([{"source": "some/open-clip"}], home, endpoint, offline="1") == [folder]


def test_no_network(tmp_path):
    (message,) = resolve_all([{"source": "some/siglip"}], tmp_path, "http://127.0.0.1:9")
    assert re.search(r"error: some/siglip .* hub cannot be reached .*check the network", message)


def test_local_paths_are_taken_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some" / "siglip").mkdir(parents=True)
    (tmp_path / "a.npz").write_bytes(b"")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hub.resolve("some/siglip") == Path("some/siglip")
    assert hub.resolve("a.npz") == Path("a.npz")
    assert hub.resolve("~/a.npz") == tmp_path / "a.npz"


@pytest.mark.parametrize(
    "source",
    ["./model", "/no/such/model", "~/model", "a/b/c", "model.npz", "runs/x.npz", "a b"],
)
def test_a_path_that_does_not_exist(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"does not exist \(it is taken for a path"):
        hub.resolve(source)


def test_an_empty_name_is_not_the_current_folder():
    with pytest.raises(InputError, match="no model was named"):
        hub.resolve("")


def test_a_url_is_downloaded_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    content = (GOLDEN / "big_vision_two_towers_scan.npz").read_bytes()
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/bucket/siglip.npz", content)
    path = hub.resolve("memory://bucket/siglip.npz")
    assert path.is_relative_to(tmp_path)
    assert path.read_bytes() == content
    assert "siglip.npz" in capsys.readouterr().err, "a progress bar"
    assert [p.name for p in path.parent.iterdir()] == ["siglip.npz"]

    stamp = path.stat().st_mtime_ns
    checkpoint = big_vision.load("memory://bucket/siglip.npz")
    assert checkpoint.source == "memory://bucket/siglip.npz"
    assert path.stat().st_mtime_ns == stamp
    expected = big_vision.load(GOLDEN / "big_vision_two_towers_scan.npz")
    np.testing.assert_array_equal(checkpoint.params["b"], expected.params["b"])

    memory.pipe_file("/bucket/siglip.npz", b"a new version")
    assert hub.resolve("memory://bucket/siglip.npz").read_bytes() == b"a new version"


def test_urls_that_cannot_be_had(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"^memory://bucket/none\.npz does not exist$"):
        hub.resolve("memory://bucket/none.npz")
    with pytest.raises(InputError, match=r"nowhere://a\.npz cannot be opened .*give the path"):
        hub.resolve("nowhere://a.npz")
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as if it were not installed
    url = "gs://big_vision/siglip/webli_en_b16_224_63724782.npz"
    public = "https://storage.googleapis.com/big_vision/siglip/webli_en_b16_224_63724782.npz"
    with pytest.raises(InputError) as caught:
        big_vision.load(url)
    assert "pip install gcsfs" in str(caught.value)
    assert public in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_download_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/bucket/broken.npz", b"content")

    def broken(self, remote, local, **_):
        Path(local).write_bytes(b"con")
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(type(memory), "get_file", broken)
    with pytest.raises(InputError, match=r"cannot be downloaded \(reset by peer\)"):
        hub.resolve("memory://bucket/broken.npz")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    "source",
    [
        "ftp://evil.example/model.npz",
        "http://127.0.0.1:1/model.npz",
        "https://evil.example/model.npz",
        "gs://bucket/model.npz",
        "file:///etc/passwd",
        "memory://model.npz",
        "simplecache::http://evil.example/x",
        "zip::model.npz",
        "\\\\evil.example\\share\\model.npz",
        "//evil.example/share/model.npz",
        "some/model\nx",
    ],
)
def test_a_recorded_source_makes_nobody_connect(source, monkeypatch):
    monkeypatch.setattr(hub, "fetch", lambda url: pytest.fail(f"connects to {url}"))
    monkeypatch.setattr(hub, "_download", lambda *_: pytest.fail("connects to the hub"))
    with pytest.raises(InputError, match="only local paths and hub ids are taken") as caught:
        hub.resolve(source, urls=False)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError):
        hub.check_recorded(source)


def test_recorded_paths_and_hub_ids_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "a.npz").write_bytes(b"x")
    assert hub.resolve("model", urls=False) == Path("model")
    assert hub.resolve(str(tmp_path / "a.npz"), urls=False) == tmp_path / "a.npz"
    asked = []

    def download(repo, revision, offline):
        asked.append((repo, revision))
        return Path(GOLDEN / "huggingface_siglip")

    monkeypatch.setattr(hub, "_download", download)
    hub.resolve("google/siglip-base-patch16-224", urls=False, revision="refs/pr/9")
    assert asked == [("google/siglip-base-patch16-224", "refs/pr/9")]
    with pytest.raises(InputError, match="does not exist"):
        hub.resolve("/no/such/model", urls=False)


def test_recorded_pipes_and_odd_revisions_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe or device"):
        hub.check_recorded(str(tmp_path / "pipe"))
    for revision in ("", "../x", "a b", "-x", "x" * 300, "a\nb"):
        with pytest.raises(InputError, match="revision"):
            hub.check_recorded("some/model", revision)


def test_names_that_are_too_long():
    with pytest.raises(InputError, match="does not exist"):
        hub.resolve("/" + "x" * 300)
