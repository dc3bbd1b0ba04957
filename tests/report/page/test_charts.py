"""Which charts there are, and what is in all of them."""

import json
import re

import numpy as np
import pytest
from made_runs import fate_scores, pictured_dataset, write_fates, write_many, write_run

from ttm_jax.config import TTMConfig
from ttm_jax.report.margins import calibration
from ttm_jax.report.page.charts import charts, comparison_chart
from ttm_jax.report.page.margin_charts import chance
from ttm_jax.report.page.tables import Cell, iteration_tables
from ttm_jax.report.run_data import read_experiments

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)


def title(chart):
    return re.search(r"<figcaption>([^<]+)<", chart)[1]


def drawn(path):
    (experiment,) = read_experiments([path])
    return {title(chart): chart for chart in charts(experiment, None)}


@pytest.mark.parametrize("kind", ["group", "global"])
def test_every_chart_of_scores_has_the_level_of_chance(tmp_path, kind):
    if kind == "group":
        found = drawn(write_fates(tmp_path, (0,)))
    else:
        rng = np.random.default_rng(0)
        history = [rng.normal(size=(1, 10, 10)) for _ in range(2)]
        found = drawn(write_run(tmp_path / "run", pictured_dataset(), history, GLOBAL))
    scored = [c for c in found.values() if ">percent right<" in c or ">percent<" in c]
    assert len(scored) == 4
    for chart in scored:
        assert "chance" in chart
        assert '<line class="level' in chart


def test_comparison_has_the_level_of_every_kind_of_group(tmp_path):
    write_fates(tmp_path / "a")
    write_many(tmp_path / "b", 8)
    experiments = read_experiments([tmp_path])
    chart = comparison_chart(experiments, ["a", "b"])
    assert chart.count('<line class="level') == 1
    assert "chance, 50.00" in chart
    assert title(chart) == "GroupMatch of the adapted model"


def test_without_truth_no_chart_is_about_right(tmp_path):
    found = drawn(write_run(tmp_path / "run", pictured_dataset(truth=False), fate_scores()))
    assert set(found) == {
        "Pseudo-labels: how many", "Threshold tau", "Training loss of every step",
        "Learning rate of every step", "Margins of the unadapted model",
        "Margins of the adapted model",
    }  # fmt: skip


def test_certainty_is_drawn_by_rank(tmp_path):
    """However close to zero the margins are, the bins are equally far apart."""
    margin = np.concatenate([np.linspace(0, 1e-3, 90), [1e3] * 10])
    ranks = [b.rank for b in calibration(margin, margin > 5e-4)]
    np.testing.assert_allclose(ranks, np.arange(5, 100, 10))
    found = drawn(write_many(tmp_path, 40))
    for name in ("Right among the most certain groups",
                 "Is a larger margin more often right?"):  # fmt: skip
        labels = re.findall(r'text-anchor="middle">(\d+)<', found[name])
        assert labels[:6] == ["0", "20", "40", "60", "80", "100"]


def test_steps_have_whole_iterations(tmp_path):
    found = drawn(write_fates(tmp_path, (0,)))
    for name in ("Training loss of every step", "Learning rate of every step", "Scores"):
        labels = re.findall(r'y="216" text-anchor="middle">([^<]+)<', found[name])
        assert labels == ["0", "1", "2"], name


def test_an_estimate_without_labels_has_the_level_of_chance(tmp_path):
    """Chance of the shapes: half for 2 x 2, wherever no metric says it."""
    path = write_run(tmp_path / "run", pictured_dataset(truth=False), fate_scores())
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    known = {"value": 0.8, "low": 0.6, "high": 0.9}
    for row in rows:
        estimate = {"tau": 1.0, "precision": known, "accuracy": known}
        row["estimate"] = {**estimate, "p_value": 0.01, "go_ahead": True}
    (path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (experiment,) = read_experiments([path])
    assert chance(experiment.first) == 50
    chart = drawn(path)["Pseudo-labels: how many"]
    assert "right, estimated without labels" in chart
    assert '<line class="level' in chart
    (table,) = iteration_tables(experiment)
    at = table.headings.index("right, estimated")
    assert table.rows[0][at] == Cell("80.00", (("60.00–90.00",),))
