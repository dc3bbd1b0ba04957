"""SIGKILL between two writes outside of a run: downloads, data folders, the adapted model."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import benchmark_layouts as layouts
import published
import pytest
from commands import command, models, one_device  # noqa: F401  (fixtures)
from local_server import Reply, running_server
from paths import TESTS

from ttm_jax import files
from ttm_jax.data import world
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import DownloadError, Patience
from ttm_jax.data.download.prepare import prepare
from ttm_jax.data.download.sources import WHATSUP_ANNOTATIONS, WHATSUP_IMAGES
from ttm_jax.data.folder_reader import read_folder, write_folder
from ttm_jax.errors import InputError
from ttm_jax.fault_points import VARIABLE

OLD = random.Random(0).randbytes(200_000)
NEW = random.Random(1).randbytes(200_000)


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as server:
        yield server


def die_at(point: str, code: str, *arguments: object, **environment: str) -> None:
    """Run this code in a process, which must die at the point."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=TESTS.parent,
        env={**os.environ, "NO_PROXY": "127.0.0.1", VARIABLE: point, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == -signal.SIGKILL, f"{point} was never passed: {done.stderr}"


FETCH = """
import sys
from pathlib import Path
from ttm_jax.data.download.fetch import fetch
fetch(sys.argv[1], Path(sys.argv[2]))
"""


@pytest.mark.parametrize(
    "point", ["download note written", "download complete", "download renamed"]
)
def test_a_download_that_starts_over(server, tmp_path, point):
    """A part of an older version lies there; the two must never be joined."""
    url, target = f"{server.url}/file", tmp_path / "file"
    server.routes["/file"] = lambda _: Reply(OLD, headers={"ETag": '"old"'}, cut=60_000)
    with pytest.raises(DownloadError):
        fetch(url, target, patience=Patience(1, 0.0))
    assert (tmp_path / "file.part").stat().st_size == 60_000
    server.serve("/file", NEW, etag='"new"')
    die_at(point, FETCH, url, target)
    fetch(url, target)
    assert target.read_bytes() == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


DATA = """
import sys
from ttm_jax.cli.main import main
sys.argv[:1] = ["ttm", "data", "whatsup_a", "--allow-changed", "--data-dir"]
main()
"""


@pytest.mark.parametrize(
    "point",
    [
        "download renamed",
        "archive unpacked",
        "image moved:3",
        pytest.param("images moved", marks=pytest.mark.slow),
        pytest.param("benchmark fetched", marks=pytest.mark.slow),
    ],
)
def test_a_benchmark(server, tmp_path, point):
    """The next command completes it, and no note or unpacked folder stays for good."""
    folder = layouts.write_whatsup(tmp_path / "origin", "a")
    annotation, images = WHATSUP_ANNOTATIONS["a"], WHATSUP_IMAGES["a"]
    served = {
        annotation.id: (folder / annotation.name).read_bytes(),
        images.id: published.tar_gz(folder / "controlled_images"),
    }
    published.publish_on_drive(server, served)
    root = tmp_path / "data"
    die_at(point, DATA, root, "--sources.drive", f"{server.url}/drive")
    options = published.Options(published.sources_of(server), allow_changed=True)
    prepare(BENCHMARKS["whatsup_a"], root, options)
    found = published.tree_of(root / "whatsup")
    # a command that died after the download cannot know whether the archive was put there by hand
    found.pop(images.name, None)
    assert found == published.tree_of(folder)
    assert not list((root / "whatsup").glob("*.unpacked"))


WRITE = """
import sys
from ttm_jax.data import world
from ttm_jax.data.folder_reader import write_folder
write_folder(world.make("color_swap", 2, size=16), sys.argv[1], overwrite=True)
"""


class TestADataFolderThatIsReplaced:
    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    def test_the_old_one_comes_back(self, tmp_path, monkeypatch):
        target = write_folder(world.make("color_swap", 3, size=16), tmp_path / "data")
        die_at("old folder set aside", WRITE, target)
        assert not target.exists()
        monkeypatch.setattr(files, "_cleaned", set())  # as in the next process
        with pytest.raises(InputError, match="is not empty"):
            write_folder(world.make("color_swap", 1, size=16), target)
        assert len(read_folder(target)) == 3
        write_folder(world.make("color_swap", 1, size=16), target, overwrite=True)
        assert len(read_folder(target)) == 1
        assert self.names(tmp_path) == ["data"]

    def test_the_old_one_goes_when_the_new_one_has_its_place(self, tmp_path):
        target = write_folder(world.make("color_swap", 3, size=16), tmp_path / "data")
        die_at("new folder in place", WRITE, target)
        assert len(read_folder(target)) == 2
        write_folder(world.make("color_swap", 1, size=16), target, overwrite=True)
        assert len(read_folder(target)) == 1
        assert self.names(tmp_path) == ["data"]


class TestTheAdaptedModel:
    """What `ttm adapt` writes beside its run."""

    @pytest.fixture
    def adapt(self, command, models, tmp_path):  # noqa: F811
        write_folder(world.make("color_swap", 4, size=16), tmp_path / "data")
        self.words = ["adapt", "--model", models["siglip"], "--data", tmp_path / "data",
                      "--out", tmp_path / "out", "--iterations", "1", "--epochs", "1",
                      "--lr", "1e-3", "--quiet"]  # fmt: skip
        return lambda: command(*self.words)

    def contents(self, folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    @pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
    def test_killed_before_its_card(self, adapt, tmp_path, monkeypatch):
        assert adapt().code == 0
        out = tmp_path / "out"
        whole = self.contents(out / "model")
        assert "README.md" in whole
        (out / "model").rename(tmp_path / "elsewhere")
        code = "import sys; sys.argv[0] = 'ttm'; from ttm_jax.cli.main import main; main()"
        die_at("model saved", code, *self.words, XLA_FLAGS="")
        assert not (out / "model").exists()
        monkeypatch.setattr(files, "_cleaned", set())  # as in the next process
        done = adapt()
        assert done.code == 0, done.err
        assert self.contents(out / "model") == whole
        assert not list(out.glob(".ttm_jax-*"))

    @pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
    def test_empty_or_foreign(self, adapt, models, tmp_path):  # noqa: F811
        """An empty folder is filled; any other model than that of the run is refused."""
        model = tmp_path / "out" / "model"
        model.mkdir(parents=True)
        assert adapt().code == 0
        whole = self.contents(model)
        again = adapt()
        assert again.code == 0, again.err
        assert self.contents(model) == whole
        for name, content, reason in (
            ("model.safetensors", Path(models["siglip"], "model.safetensors").read_bytes(),
             "has other values"),
            ("model.safetensors", whole["model.safetensors"][:1000], "model.safetensors"),
            ("config.json", b"{}", "config.json"),
        ):  # fmt: skip
            (model / name).write_bytes(content)
            before = self.contents(model)
            done = adapt()
            assert done.code == 2
            assert done.err.count("\n") == 1, done.err
            assert f"{model} does not hold the model of this run (" in done.err
            assert reason in done.err
            assert self.contents(model) == before
            (model / name).write_bytes(whole[name])

    def test_one_without_a_run_is_refused_before_the_training(self, adapt, tmp_path):
        model = tmp_path / "out" / "model"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        done = adapt()
        assert done.code == 2
        assert "holds no run that it could be from" in done.err
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
