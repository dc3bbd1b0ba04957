"""Names of files that are not UTF-8: from an old archive, or from another system."""

import os
from pathlib import Path

import pytest
from commands import command, models, one_device  # noqa: F401  (fixtures)

from ttm_jax import files
from ttm_jax.data import world
from ttm_jax.data.download.manifest import read_manifest, record
from ttm_jax.data.folder_reader import write_folder

pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
QUICK = ("--iterations", "1", "--epochs", "1", "--lr", "1e-3", "--quiet")


def odd(folder: Path, name: bytes) -> Path:
    return folder / os.fsdecode(name)


@pytest.fixture
def photos(tmp_path) -> Path:
    """Four pictures; neither their names nor that of their folder are UTF-8."""
    drawn = write_folder(world.make("color_swap", 2, size=16), tmp_path / "drawn")
    folder = odd(tmp_path, b"caf\xe9")
    folder.mkdir()
    for number, path in enumerate(sorted((drawn / "images").iterdir())):
        path.rename(odd(folder, b"th\xe9 %d.png" % number))
    (folder / "captions.txt").write_text("a red star\na blue star\na dog\na cat\n")
    return folder


def test_pictures_and_their_folder(command, models, photos, tmp_path):  # noqa: F811
    """Adapted, reported on, and every name shown with a visible escape."""
    done = command("adapt", "--model", models["siglip"], "--data", photos, "--out",
                   tmp_path / "out", *QUICK)  # fmt: skip
    assert done.code == 0, done.err
    text = (tmp_path / "out" / "matchings.csv").read_text("utf-8")
    assert "th\\udce9 0.png" in text
    assert command("report", tmp_path / "out", "-o", tmp_path / "page.html").code == 0


@pytest.mark.parametrize("command_line", ["adapt", "export"])
def test_where_no_run_can_be(command, models, photos, tmp_path, command_line):  # noqa: F811
    """The library that stores arrays takes UTF-8 only: that is said before anything is written."""
    place = odd(tmp_path, b"out\xff")
    if command_line == "adapt":
        done = command("adapt", "--model", models["siglip"], "--data", photos, "--out", place,
                       *QUICK)  # fmt: skip
    else:
        done = command("adapt", "--model", models["siglip"], "--data", photos, "--out",
                       tmp_path / "out", *QUICK)  # fmt: skip
        assert done.code == 0, done.err
        (tmp_path / "out").rename(place)
        done = command("export", place, tmp_path / "exported")
    assert done.code == 2
    assert done.err.count("\n") == 1, done.err
    assert "out\\udcff/run" in done.err
    assert "is not a name in UTF-8; choose another one" in done.err
    assert (command_line == "export") == place.exists()
    assert not (tmp_path / "exported").exists()


def test_json_keeps_half_a_character(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"a": "\udce9", "b": "é"})
    assert files.read_json(path) == {"a": "\udce9", "b": "é"}
    files.append_lines(tmp_path / "a.jsonl", [{"a": "\ud800"}])
    assert list(files.read_lines(tmp_path / "a.jsonl")) == [{"a": "\ud800"}]


def test_a_manifest_with_half_a_character(tmp_path):
    """From another program; it is kept as it is."""
    (tmp_path / "a.csv").write_text("x")
    record(tmp_path, "mmvp_vlm", [tmp_path / "a.csv"], {}, 1, 1)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("found here", "\\ud800"))
    record(tmp_path, "colorswap", [], {}, 1, 1)
    assert read_manifest(tmp_path)["files"]["a.csv"]["origin"] == "\ud800"
