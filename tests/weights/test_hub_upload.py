"""Uploading a folder, against a local server that speaks the part of the hub's protocol for it."""

import base64
import json
import os
import subprocess
import sys

import pytest
from local_server import Reply, running_server

from ttm_jax.errors import InputError
from ttm_jax.weights.hub_upload import check_repository

FILES = {"README.md": "# A card\n", "config.json": "{}\n", "model.safetensors": "weights"}
PUSH = """
import sys
from pathlib import Path
from ttm_jax.cli.exit_codes import run
from ttm_jax.weights.hub_upload import push_folder

run(lambda: print(push_folder(Path(sys.argv[1]), "some/model", private=True)))
"""


def as_json(value: object) -> Reply:
    return Reply(json.dumps(value).encode(), headers={"Content-Type": "application/json"})


@pytest.fixture
def server():
    with running_server() as found:
        yield found


@pytest.fixture
def push(server, tmp_path):
    folder = tmp_path / "adapted"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)

    def run(token: str = "hf_test") -> subprocess.CompletedProcess:
        # huggingface_hub reads these when it is imported, so it needs a process of its own.
        environment = {
            **os.environ,
            "HF_ENDPOINT": server.url,
            "HF_HUB_OFFLINE": "0",
            "HF_HOME": str(tmp_path / "home"),
            "HF_TOKEN": token,
        }
        return subprocess.run(
            [sys.executable, "-c", PUSH, folder], capture_output=True, text=True, env=environment
        )

    return run


def serve_hub(server) -> None:
    address = f"{server.url}/some/model"
    server.routes |= {
        "/api/repos/create": lambda _: as_json({"url": address}),
        "/api/validate-yaml": lambda _: as_json({"errors": [], "warnings": []}),
        "/api/models/some/model/preupload/main": lambda request: as_json(
            {
                "files": [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for file in json.loads(request.body)["files"]
                ]
            }
        ),
        "/api/models/some/model/commit/main": lambda _: as_json(
            {"success": True, "commitOid": "a" * 40, "commitUrl": f"{address}/commit/{'a' * 40}"}
        ),
    }


def test_every_file_arrives(server, push):
    serve_hub(server)
    done = push()
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("/some/model")
    (made,) = [r for r in server.seen if r.path == "/api/repos/create"]
    asked = json.loads(made.body)
    assert asked["name"] == "model"
    assert asked["organization"] == "some"
    assert "private" in json.dumps(asked)
    (commit,) = [r for r in server.seen if r.path.endswith("/commit/main")]
    lines = [json.loads(line) for line in commit.body.splitlines()]
    sent = {
        line["value"]["path"]: base64.b64decode(line["value"]["content"]).decode()
        for line in lines
        if line["key"] == "file"
    }
    assert sent == FILES
    assert commit.headers["authorization"] == "Bearer hf_test"


def test_a_token_that_is_refused_is_one_line(server, push):
    server.routes["/api/repos/create"] = lambda _: Reply(b"{}", 401)
    done = push()
    assert done.returncode == 2
    assert done.stderr.startswith("error: some/model cannot be uploaded: ")
    assert "401" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "hf_test" not in done.stderr


@pytest.mark.parametrize("name", ["model", "a/b/c", "../x", "a/", "/a", "a b/c", "a--b/c"])
def test_names_that_the_hub_does_not_have(name):
    with pytest.raises(InputError, match="expected USER/NAME"):
        check_repository(name)
