"""The demo in a reduced size: the shipped model, real training, and numbers that must hold."""

import pytest
from commands import command, one_device  # noqa: F401  (fixtures)

from ttm_jax.files import read_json, read_lines
from ttm_jax.load import SMALL, load_model

GROUPS = 24
SIZE = ("--groups", GROUPS, "--iterations", 2, "--epochs", 2, "--seeds", 0, 1, "--quiet")


def test_the_demo_from_end_to_end(command, tmp_path):  # noqa: F811
    done = command("demo", *SIZE, "--run-dir", tmp_path / "demo")
    assert done.code == 0, done.err
    for word in ("SimpleMatch", "color_swap", "color_choice", "curves.png", "summary.json"):
        assert word in done.out
    assert (tmp_path / "demo/curves.png").stat().st_size > 10_000
    square, choice = read_json(tmp_path / "demo/summary.json")["rows"]
    assert (square["shape"], choice["shape"]) == ("2x2", "1x4")
    check_row(square)
    check_row(choice)
    assert square["raw"] <= square["simple_match"]  # a right GroupScore is a right matching
    assert choice["raw"] == choice["simple_match"]  # of one picture they are the same
    runs = sorted((tmp_path / "demo").glob("*/seed_*"))
    assert len(runs) == 4
    for run in runs:
        check_run(run)


def check_row(row):
    assert row["model"] == "small-siglip"
    assert row["seeds"] == [0, 1]
    assert row["ttm_mean"] == pytest.approx(sum(row["ttm_values"]) / 2)
    assert row["ttm_std"] >= 0
    for value in (row["raw"], row["simple_match"], *row["ttm_values"]):
        groups = value * GROUPS / 100
        assert groups == pytest.approx(round(groups))


def check_run(run):
    rows = list(read_lines(run / "metrics.jsonl"))
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert rows[1]["tau"] > rows[2]["tau"]
    assert 0 < rows[1]["selected"] < GROUPS
    assert (run / "checkpoints").is_dir()


@pytest.mark.parametrize("name", SMALL)
def test_shipped_models_know_the_training_world(name):
    """Pale pictures as in training: far above chance in shapes and colours."""
    from ttm_jax.data import world
    from ttm_jax.evaluation import evaluate
    from ttm_jax.small.quality import raw_scores

    model = load_model(name)
    for variant in ("replace_color", "replace_shape"):
        data = world.make(variant, 60, seed=77, split="train")
        found = evaluate(raw_scores(model, data), data, "group")["group_match"]
        assert found["percent"] > 80, (variant, found)


def test_shipped_models_are_small():
    sizes = [f.stat().st_size for folder in SMALL.values() for f in folder.rglob("*")]
    assert 1e6 < sum(sizes) < 15e6
