"""Agreement of seeds, against a count by hand."""

from collections import Counter

import numpy as np
import pytest

from ttm_jax.config import TTMConfig
from ttm_jax.data import world
from ttm_jax.engine.seeds import run_seeds
from ttm_jax.load import load_model
from ttm_jax.matching.rate_interval import Rate
from ttm_jax.report.agreement import Agreement, agreement_of_seeds
from ttm_jax.report.page.page import page
from ttm_jax.report.run_data import read_experiments
from ttm_jax.runs.console import Console


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "texture"
    dataset = world.make("texture_swap", groups=24)
    config = TTMConfig(lr=2e-3, iterations=2, epochs=2, batch_groups=4)
    with Console("quiet") as console:
        results = run_seeds(
            load_model("small-siglip"), dataset, config, (0, 1, 2), folder, console=console
        )
    return folder, dataset, results


def test_counts(made):
    folder, dataset, results = made
    (experiment,) = read_experiments([folder])
    found = agreement_of_seeds(experiment)
    votes = [
        Counter(tuple(result.matchings[g].tolist()) for result in results).most_common()
        for g in range(len(dataset))
    ]
    expected = Counter(best[0][1] for best in votes)
    assert {part.seeds: part.units for part in found} == dict(expected)
    truth = dataset.blocks[0].truth
    full = next(part for part in found if part.seeds == 3)
    right = sum(
        best[0][1] == 3 and best[0][0] == tuple(truth[g].tolist()) for g, best in enumerate(votes)
    )
    assert full.right.count == right


def test_the_page(made):
    folder, _, _ = made
    text = page(read_experiments([folder]), models={})
    assert "Agreement of the seeds" in text
    assert "precision, estimated" in text
    assert "grounded gain" in text
    one = page(read_experiments([folder / "seed_0"]), models={})
    assert "Agreement of the seeds" not in one


def test_calibration():
    assert Agreement(2, 4, 100, Rate(50, 100, 0.5)).calibrated
    assert not Agreement(4, 4, 100, Rate(69, 100, 0.5)).calibrated
    assert Agreement(4, 4, 100, None).calibrated is None


def test_rows_say_what_is_known(made):
    folder, _, results = made
    (experiment,) = read_experiments([folder])
    for run in experiment.runs:
        assert all(np.isfinite(row["estimate"]["accuracy"]["value"]) for row in run.rows)
        assert "tau_1" in run.rows[0]
    assert results[0].run_dir == experiment.first.path
