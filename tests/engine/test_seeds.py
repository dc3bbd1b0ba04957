"""Several seeds, SimpleMatch and trackers."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.engine.seeds import run_seeds, spread
from ttm_jax.engine.simple_match import agreement, simple_match
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.runs.trackers import TensorBoard, numbers, open_trackers


def test_seeds_side_by_side_are_the_same_as_one_by_one(tmp_path):
    model, dataset = tiny_model(), tiny_dataset()
    results = run_seeds(model, dataset, CONFIG, (4, 5), tmp_path, one_per_device=True)
    for result in results:
        alone = run_ttm(model, dataset, CONFIG, seed=result.seed, devices=jax.devices()[:1])
        np.testing.assert_array_equal(result.scores, alone.scores)
    summary = read_json(tmp_path / "summary.json")
    values = [result.metrics["group_match"]["percent"] for result in results]
    assert summary["seeds"] == [4, 5]
    assert summary["final"]["group_match"]["values"] == values
    assert summary["final"]["group_match"]["std"] == pytest.approx(np.std(values, ddof=1))
    assert (tmp_path / "seed_4" / "summary.json").exists()


def test_spread_of_one_value_has_no_deviation():
    assert spread([3.0]) == {"mean": 3.0, "std": None, "values": [3.0]}


def test_simple_match_makes_group_score_of_group_match():
    """The paper's claim, on random weights: overfitting reaches what GroupMatch promised."""
    result = simple_match(
        tiny_model(),
        tiny_dataset(),
        replace(CONFIG, lr=3e-3),
        max_epochs=200,
        devices=jax.devices()[:1],
    )
    before, after = result.raw_metrics, result.metrics
    assert before["group_score"]["count"] < before["group_match"]["count"]
    assert result.reached
    assert after["group_score"]["count"] == before["group_match"]["count"]


def test_simple_match_says_how_far_it_got():
    result = simple_match(
        tiny_model(), tiny_dataset(), replace(CONFIG, lr=1e-9), max_epochs=5,
        devices=jax.devices()[:1],
    )  # fmt: skip
    assert not result.reached
    assert result.epochs == 5


def test_agreement_counts_groups_that_follow_the_first_matching():
    first = np.array([[[1.0, 0.0], [0.9, 0.8]], [[0.0, 1.0], [1.0, 0.0]], [[1.0, 1], [1, 1]]])
    # The first group's matching is the diagonal but its second row does not follow; the second is
    # followed; the third is a tie and does not count.
    assert agreement((first,), (first,)) == 0.5


def test_tensorboard_files(tmp_path):
    pytest.importorskip("tensorboardX")
    tracker = TensorBoard(tmp_path)
    run_ttm(tiny_model(), tiny_dataset(), CONFIG, trackers=[tracker], devices=jax.devices()[:1])
    tracker.close()
    (events,) = tmp_path.iterdir()
    content = Path(events).read_bytes()
    assert content.count(b"metrics/group_match") == CONFIG.iterations


def test_numbers_of_a_row():
    row = {"metrics": {"group_match": {"percent": 50.0}}, "tau": 1, "precision": None}
    assert numbers(row) == {"metrics/group_match": 50.0, "tau": 1.0}


def test_trackers_without_their_extra_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(InputError, match=r"pip install wandb \(the extra `wandb`\)"):
        open_trackers(tmp_path, "seed_0", wandb="project")
