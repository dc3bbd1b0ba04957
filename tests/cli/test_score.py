"""`ttm score` on a folder of images, as a user calls it."""

import json

import numpy as np
import pytest
from PIL import Image

from ttm_jax.cli import evaluate, score
from ttm_jax.data.caption_tables import is_table_name
from ttm_jax.errors import InputError

WORDS = ("a red circle", "a blue square", "a green star")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in (1, 2, 3):
        Image.fromarray(np.full((48, 48, 3), 60 * number, np.uint8)).save(folder / f"{number}.png")
    return folder


def metrics(capsys) -> dict:
    capsys.readouterr()
    evaluate.main(["x.npz", "--json"])
    return json.loads(capsys.readouterr().out)["metrics"]


def test_what_a_folder_means_for_evaluate(photos, capsys):
    """The order of file names says nothing; a table with an image column does."""
    words = ["--model", "small-siglip", "--images", str(photos), "--out", "x.npz"]
    (photos.parent / "words.txt").write_text("\n".join(WORDS))
    score.main([*words, "--captions-file", "words.txt"])
    said = capsys.readouterr().err
    assert said.count("small-siglip: it was trained on drawings") == 1
    assert metrics(capsys) == {}
    rows = [f"{number}.png,{text}" for number, text in zip((3, 1, 2), WORDS, strict=True)]
    (photos.parent / "pairs.csv").write_text("\n".join(["image,caption", *rows]))
    score.main([*words, "--captions-file", "pairs.csv"])
    assert metrics(capsys)["global_match"]["of"] == 3
    with np.load("x.npz") as found:
        assert found["truth"].tolist() == [1, 2, 0]
    listed = [str(photos / f"{number}.png") for number in (1, 2, 3)]
    score.main(["--model", "small-siglip", "--images", *listed, "--captions", *WORDS,
                "--out", "x.npz"])  # fmt: skip
    assert metrics(capsys)["global_match"]["of"] == 3


def test_a_file_of_captions_where_captions_are_expected(photos, capsys):
    """What `ttm adapt --captions` takes is not scored as a caption with the name of a file."""
    (photos.parent / "words.txt").write_text("\n".join(WORDS))
    args = ["--model", "small-siglip", "--images", str(photos), "--captions"]
    score.main([*args, "words.txt", "--json"])
    assert json.loads(capsys.readouterr().out)["captions"] == list(WORDS)
    with pytest.raises(InputError, match=r"none\.csv"):
        score.main([*args, "none.csv"])
    assert not is_table_name("a red circle.txt")  # words, and no such file
    assert not is_table_name("a red circle")
