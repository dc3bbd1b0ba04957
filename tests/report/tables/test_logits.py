"""`ttm score`: the best captions of each image, at any width, and the files it writes."""

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ttm_jax.report.tables.logits import print_best, probabilities, write_logits

IMAGES = [Path("photos/a.jpg"), Path("photos/b.jpg")]
CAPTIONS = [f"caption number {n}, with many words in it" for n in range(1, 21)]
SCORES = np.zeros((2, 20), np.float32)
SCORES[0, 16], SCORES[0, 2], SCORES[1, 0] = 3, 2, 5


def test_twenty_captions_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_best(SCORES, IMAGES, CAPTIONS, "siglip", 3)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.sub(" +", " ", lines[1]) == "photos/a.jpg *17 95.3 % 3 88.1 % 1 50.0 %"
    assert lines[2].split()[1] == "*1"
    assert lines[4:24] == [f"{n:2}  {text}" for n, text in enumerate(CAPTIONS, 1)]
    assert "sigmoid" in lines[-1]


def test_probabilities():
    scores = np.array([[0.0, 1000.0], [-1000.0, -1000.0]], np.float32)
    np.testing.assert_allclose(probabilities(scores, "siglip"), [[0.5, 1], [0, 0]])
    np.testing.assert_allclose(probabilities(scores, "clip"), [[0, 1], [0.5, 0.5]])
    np.testing.assert_array_equal(probabilities(scores, "vqa"), scores)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".npz"])
def test_files(tmp_path, suffix):
    path = tmp_path / f"scores{suffix}"
    write_logits(path, SCORES, IMAGES, CAPTIONS, "clip")
    if suffix == ".csv":
        rows = list(csv.DictReader(path.read_text().splitlines()))
        assert len(rows) == 40
        assert (rows[0]["image"], rows[0]["rank"], rows[0]["caption"]) == (
            "photos/a.jpg", "1", CAPTIONS[16]
        )  # fmt: skip
        assert sum(float(row["probability"]) for row in rows[:20]) == pytest.approx(1, abs=1e-4)
    elif suffix == ".json":
        found = json.loads(path.read_text())
        assert found["captions"] == CAPTIONS
        assert found["logits"] == SCORES.tolist()
    else:
        with np.load(path) as found:
            np.testing.assert_array_equal(found["scores"], SCORES)


def test_names_are_cut_on_a_terminal_only(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = [Path("a/folder") / f"{'very_' * 5}{name}.jpg" for name in "ab"]

    def names(images) -> list[str]:
        print_best(SCORES, images, CAPTIONS, "siglip", 3)
        lines = capsys.readouterr().out.splitlines()
        return [line.split()[0] for line in lines[1:3]]

    assert names(long) == [str(path) for path in long]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert names(long) == [path.name for path in long]  # the folder is the same
    elsewhere = [long[0], Path("b/folder") / long[1].name]
    found = names(elsewhere)
    assert all(name.startswith("...") for name in found)
    assert all(str(path).endswith(name[3:]) for path, name in zip(elsewhere, found, strict=True))
