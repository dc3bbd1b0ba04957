"""What stands at the top of the page, and the settings that it says were used."""

from dataclasses import replace

import numpy as np
from made_runs import (
    CONFIG,
    MMVP,
    NAMES,
    fate_scores,
    paper_run,
    pictured_dataset,
    write_fates,
    write_run,
)

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.report.page.headline import changed, lead, lead_of_many, tiles
from ttm_jax.report.page.page import page
from ttm_jax.report.page.settings import used_settings
from ttm_jax.report.run_data import read_experiments
from ttm_jax.report.tables.paper_numbers import paper_result

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)


def read(path):
    (experiment,) = read_experiments([path])
    return experiment


def test_what_changed(tmp_path):
    run = read(write_fates(tmp_path, (0,))).first
    # to-right and to-wrong; "still-wrong" went back to what it was.
    assert changed(run).tolist() == [True, True, False, False, False]


def test_with_truth(tmp_path):
    experiment = read(write_fates(tmp_path, (0,)))
    assert lead(experiment) == ["2 of 5 matchings changed", "GroupMatch 40.00 → 40.00"]
    found = {tile.name: tile for tile in tiles(experiment, None)}
    assert found["matchings changed"].notes == ("1 became right, 1 became wrong",)
    assert found["GroupScore"].value == "20.00 → 40.00"
    assert found["GroupScore"].notes == ("+20.00 points, chance 16.67", "25.00 % less wrong")
    assert found["selected for training"].value == "3 → 4"


def test_seeds_have_a_spread(tmp_path):
    write_run(tmp_path / "seed_0", pictured_dataset(), fate_scores())
    still = [fate_scores()[0]] * 3
    write_run(tmp_path / "seed_1", pictured_dataset(), still, seed=1)
    assert lead(read(tmp_path))[0] == "0 to 2 of 5 matchings changed"
    assert "1.00 became right" not in str(tiles(read(tmp_path), None)[0].notes)
    assert tiles(read(tmp_path), None)[0].notes == ("0.50 became right, 0.50 became wrong (means)",)


def test_without_truth_what_is_known_comes_first(tmp_path):
    write_run(tmp_path / "run", pictured_dataset(truth=False), fate_scores())
    experiment = read(tmp_path / "run")
    assert lead(experiment) == [
        "2 of 5 matchings changed", "least certain is group tied with a margin of 0.00",
    ]  # fmt: skip
    uncertain = tiles(experiment, None)[1]
    assert uncertain.notes == (
        "group tied: 0.00", "group to-wrong: 1.30", "group still-wrong: 1.30",
        "1 tied: another matching is as good",
    )  # fmt: skip
    text = page([experiment], models={})
    assert "became" not in text[: text.index("<main>")]
    assert text.index("matchings changed") < text.index("no labels were given")


def test_global(tmp_path):
    history = [np.eye(10)[None], np.eye(10)[None, ::-1]]
    write_run(tmp_path / "run", pictured_dataset(), history, GLOBAL)
    assert lead(read(tmp_path / "run")) == [
        "10 of 10 pairs changed", "global match 100.00 → 0.00",
    ]  # fmt: skip


def test_beside_the_paper(tmp_path):
    paper_run(tmp_path / "mmvp", MMVP)
    experiment = read(tmp_path / "mmvp")
    found = {tile.name: tile for tile in tiles(experiment, paper_result(experiment, NAMES))}
    assert found["GroupMatch in the paper"].value == "81.48 → 89.44 ± 0.96"
    assert found["GroupMatch in the paper"].notes == ("here -2.03 from that",)


def test_several_experiments(tmp_path):
    write_fates(tmp_path / "same", (0,))
    paper_run(tmp_path / "better", replace(MMVP, iterations=1))
    write_run(tmp_path / "unknown", pictured_dataset(truth=False), fate_scores())
    experiments = read_experiments([tmp_path])
    assert lead_of_many(experiments) == [
        "The score rose in 1 of 2 experiments", "mean gain +2.96 points",
    ]  # fmt: skip
    text = page(experiments, models={})
    assert text.count('<details class="fold experiment"') == 3
    assert " open" not in "".join(part.split(">")[0] for part in text.split("<details")[1:])


def test_not_trained_yet(tmp_path):
    write_run(tmp_path / "run", pictured_dataset(), fate_scores()[:1])
    experiment = read(tmp_path / "run")
    assert lead(experiment) == ["Nothing is trained yet"]
    assert "seed 0 is at 0 of 2" in page([experiment], models={})


def test_settings_are_those_that_were_used(tmp_path):
    """Left open: the first threshold, and a batch that grows from 22 to 23 for 46 groups."""
    pixel = np.zeros((2, 2, 3), np.uint8)
    groups = [Group(str(n), (pixel, pixel.copy()), ("a", "b"), (0, 1)) for n in range(46)]
    scores = [np.random.default_rng(0).normal(size=(46, 2, 2)) for _ in range(3)]
    config = replace(CONFIG, tau_1=None, batch_groups=22)
    write_run(tmp_path / "run", GroupedDataset.from_groups(groups), scores, config)
    experiment = read(tmp_path / "run")
    found = dict(used_settings(experiment))
    row = experiment.first.rows[1]
    share = 100 * row["selected"] / 46
    assert found["tau_1"] == f"{row['tau']:.4g}, which selected {share:.2f} % of the groups"
    assert found["batch"] == "23 groups"
    for name in ("batch_groups", "coverage", "lora_rank", "memory.remat", "grow_batch"):
        assert name not in found
    assert "null" not in found.values()
    assert found["weight_decay"] == "0.05"
