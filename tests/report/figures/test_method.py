"""The picture of the method: what it takes from a run, and what it refuses."""

from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest
from made_runs import write_fates

from ttm_jax.errors import InputError
from ttm_jax.report.decisions import decisions
from ttm_jax.report.figures.method import draw_method, example, selection
from ttm_jax.report.run_data import read_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_fates(root / "plain", (0,))
    return read_run(root / "plain" / "seed_0")


def test_the_group_that_is_shown_became_right(run):
    first, last = decisions(run, 0), decisions(run, run.last)
    group = example(first, last)
    assert not first.right[group]
    assert last.right[group]
    others = ~first.right & last.right
    assert last.confidence[group] == last.confidence[others].max()
    # Where nothing became right, a group that is right is shown.
    assert last.right[example(last, last)]


def test_the_selection_is_the_ledger(run):
    chosen, right = selection(run)
    assert chosen.shape == right.shape == (run.last, len(run.pictures.groups))
    np.testing.assert_array_equal(chosen.sum(axis=1), [row["selected"] for row in run.rows[1:]])
    for t in range(run.last):
        np.testing.assert_array_equal(right[t], decisions(run, t).right)


def test_a_picture_comes_out(run, tmp_path):
    draw_method(run, tmp_path / "new" / "method.png")
    pixels = matplotlib.image.imread(tmp_path / "new" / "method.png")
    assert pixels.shape[0] > 500
    assert pixels.shape[1] > 1000
    assert pixels.std() > 0.05


def test_other_runs_are_refused(run, tmp_path):
    rows = [{**row, "metrics": {}} for row in run.rows]
    with pytest.raises(InputError, match="needs 2x2 groups with known truth and pictures"):
        draw_method(replace(run, rows=rows), tmp_path / "method.png")
    assert not list(tmp_path.iterdir())
