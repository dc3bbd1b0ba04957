"""`ttm match`: one caption for each image, without training."""

import numpy as np
import pytest
from commands import command, models, one_device  # noqa: F401  (fixtures)
from PIL import Image

from ttm_jax.data import world
from ttm_jax.data.folder_writer import write_folder
from ttm_jax.files import read_lines
from ttm_jax.load import load_model
from ttm_jax.matching.large import pair_scores as pair_scores_module
from ttm_jax.matching.match import match_global

pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Drawings, and their captions in another order."""
    folder = tmp_path_factory.mktemp("photos")
    groups = list(world.make("color_swap", 4, size=32))
    captions = []
    for number, group in enumerate(groups):
        for side, picture in enumerate(group.images):
            Image.fromarray(np.asarray(picture)).save(folder / f"{number}{side}.png")
            captions.append(group.captions[side])
    (folder / "captions.txt").write_text("\n".join(captions[::-1]) + "\n")
    return folder


@pytest.mark.parametrize("most", [10**9, 1])
def test_every_image_gets_a_caption(command, models, photos, tmp_path, monkeypatch, most):  # noqa: F811
    monkeypatch.setattr(pair_scores_module, "MOST_PAIRS", most)
    out = tmp_path / "found.jsonl"
    done = command("match", "--model", models["siglip"], "--data", photos, "--out", out)
    assert done.code == 0, done.err
    lines = list(read_lines(out))
    captions = (photos / "captions.txt").read_text().splitlines()
    names = sorted(path.name for path in photos.glob("*.png"))
    assert [line["image"] for line in lines] == names
    scores = load_model(models["siglip"]).score([photos / name for name in names], captions)
    found = match_global(scores)
    for row, line in enumerate(lines):
        assert line["unique"] == found.unique[row]
        assert line["caption"] == found.matching[row]
        assert line["matched"] == captions[line["caption"]]
        assert line["similarity"] == pytest.approx(found.similarity[row], abs=1e-3)
        others = scores[row].copy()
        others[line["caption"]] = -np.inf
        assert scores[row][captions.index(line["runner_up"])] == pytest.approx(others.max(), 1e-3)
        assert "before" not in line
    assert "8 of 8 images have a settled matching" in done.out
    assert ("proved: the best of all assignments" in done.out) == (most == 1)
    assert ("round 1" in done.err) == (most == 1)


def test_adapting_a_collection_needs_no_matrix(command, models, photos, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(pair_scores_module, "MOST_PAIRS", 1)
    out = tmp_path / "out"
    flags = ("--iterations", 1, "--epochs", 1, "--lr", 1e-4, "--quiet")
    args = ("--model", models["siglip"], "--data", photos, "--out", out, *flags)
    assert command("adapt", *args).code == 0
    lines = list(read_lines(out / "matchings.jsonl"))
    captions = (photos / "captions.txt").read_text().splitlines()
    assert sorted(line["caption"] for line in lines) == list(range(8))
    for line in lines:
        assert line["matched"] == captions[line["caption"]]
        assert line["runner_up"] in captions
        assert line["runner_up"] != line["matched"]
        assert {"similarity", "unique", "before"} <= line.keys()
    assert "report.html" in {path.name for path in out.iterdir()}
    row = next(iter(read_lines(out / "run" / "metrics.jsonl")))
    assert row["assignment"]["proved"]
    assert command("adapt", *args).code == 0  # a finished run is read again
    shown = command("compare", out / "run", out / "run")
    assert shown.code == 0, shown.err


def test_groups_are_matched_by_group(command, models, tmp_path):  # noqa: F811
    write_folder(list(world.make("color_swap", 3, size=32)), tmp_path / "data")
    out = tmp_path / "found.jsonl"
    args = ("--model", models["siglip"], "--data", tmp_path / "data", "--out", out, "--quiet")
    done = command("match", *args)
    assert done.code == 0, done.err
    lines = list(read_lines(out))
    assert [sorted(line["matching"]) for line in lines] == [[0, 1]] * 3
    assert all(line["margin"] >= 0 for line in lines)
    assert "GroupMatch: " in done.out
    assert not done.err
    done = command("match", *args, "--matching", "global")
    assert done.code == 0, done.err
    assert sorted(line["caption"] for line in read_lines(out)) == list(range(6))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--gap", "1.5"), "match_gap is 1.5"),
        (("--seconds", "-1"), "match_seconds is -1.0"),
        (("--matching", "group"), "has no groups"),
        (("--out", "nowhere/found.jsonl"), "there is no folder nowhere"),
    ],
)
def test_mistakes_are_one_line(command, photos, flags, message):  # noqa: F811
    done = command("match", "--model", "small-siglip", "--data", photos, *flags)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
