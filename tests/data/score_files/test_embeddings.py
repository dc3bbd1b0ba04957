"""Embeddings instead of scores: the same metrics, and the same care with what a file holds."""

import numpy as np
import pytest

from ttm_jax.cli.evaluate import main
from ttm_jax.data.score_files.read import read_score_file
from ttm_jax.errors import InputError
from ttm_jax.matching.large import pair_scores as pair_scores_module

RNG = np.random.default_rng(0)
IMAGES, TEXTS = (RNG.integers(-9, 10, (n, 5)).astype(np.float32) for n in (7, 9))
GOOD = {"image_embeddings": IMAGES, "text_embeddings": TEXTS}


def save(folder, **arrays):
    path = folder / "embeddings.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("most", [10**9, 1])
def test_metrics_are_those_of_the_matrix(tmp_path, capsys, monkeypatch, most):
    monkeypatch.setattr(pair_scores_module, "MOST_PAIRS", most)
    truth = RNG.permutation(9)[:7]
    path = save(tmp_path, **GOOD, scale=np.float32(2), bias=np.float32(-1), truth=truth)
    matrix = tmp_path / "matrix.npz"
    np.savez(matrix, scores=2 * IMAGES @ TEXTS.T - 1, truth=truth)
    answers = []
    for file in (path, matrix):
        main([str(file), "--global", "--json"])
        answers.append(capsys.readouterr().out.replace(" ", "").split(',"without_prior"')[0])
    assert answers[0].rstrip("}\n") == answers[1].rstrip("}\n")


def test_tables_are_printed(tmp_path, capsys):
    path = save(tmp_path, **GOOD)
    main([str(path), "--global", "--figure", str(tmp_path / "figure.png")])
    shown = capsys.readouterr().out
    assert "7 images x 9 captions" in shown
    assert (tmp_path / "figure.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": np.array([1.0, 2.0])}, "scale is .*; expected one finite number"),
        ({"bias": np.array(np.nan)}, "bias is nan; expected one finite number"),
        ({"image_embeddings": IMAGES[:, :4]}, "images have embeddings of 4 numbers"),
        ({"text_embeddings": TEXTS[0]}, r"embeddings of texts have shape \(5,\)"),
        ({"text_embeddings": np.full_like(TEXTS, np.inf)}, "embeddings of texts contain NaN"),
        ({"scores": IMAGES @ TEXTS.T}, "holds scores and embeddings"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, change, message):
    path = save(tmp_path, **{**GOOD, **change})
    with pytest.raises(InputError, match=message):
        read_score_file(path, matrix=True)


def test_groups_need_scores(tmp_path):
    with pytest.raises(InputError, match="expected an array named scores"):
        read_score_file(save(tmp_path, **GOOD))
