"""`experiments.reproduce`: whole tables from the runs of the single commands."""

import csv

import pytest
from commands import command, models, one_device  # noqa: F401  (fixtures)

from ttm_jax.files import read_json, write_json

SMALL = ("--small", "--quiet", "--limit", 6, "--iterations", 2, "--seeds", 0)


@pytest.fixture
def reproduce(command, models, tmp_path):  # noqa: F811
    def run(*args):
        root = tmp_path / "runs"
        return command("reproduce", *SMALL, "--model", models["siglip"], "--run-dir", root, *args)

    return run


def test_takes_up_what_the_single_commands_did(command, reproduce, models, tmp_path):  # noqa: F811
    root = tmp_path / "runs"
    alone = root / "winoground_siglip_small"
    done = command("winoground_siglip", *SMALL, "--model", models["siglip"], "--run-dir", alone)
    assert done.code == 0, done.err
    metrics = (alone / "seed_0" / "metrics.jsonl").read_bytes()
    rows = ("--table", "main_2x2", "--rows", "winoground_siglip", "colorswap_siglip_l16")
    done = reproduce(*rows)
    assert done.code == 0, done.err
    # seconds are in there: the same bytes mean that nothing was computed again
    assert (alone / "seed_0" / "metrics.jsonl").read_bytes() == metrics
    text = (root / "table_main_2x2_small.md").read_text()
    assert text.startswith("# main_2x2 (Table 1 of the paper)\n")
    table = list(csv.DictReader((root / "table_main_2x2_small.csv").read_text().splitlines()))
    assert [line["number"] for line in table] == ["raw", "simple_match", "ttm"] * 2
    summary = read_json(alone / "summary.json")
    assert float(table[2]["here"]) == summary["final"]["group_match"]["mean"]
    again = reproduce(*rows)
    assert again.out == done.out


def test_a_row_that_cannot_run_does_not_stop_the_others(reproduce, tmp_path):
    root = tmp_path / "runs"
    write_json(root / "winoground_siglip_small" / "experiment.json", {"experiment": "mine"})
    done = reproduce("--table", "main_2x2", "--rows", "winoground_siglip", "winoground_siglip_l16")
    assert done.code == 2
    assert "winoground_siglip_small holds another experiment" in done.err
    assert done.err.endswith("these rows are missing, see above: winoground_siglip winoground\n")
    assert (root / "table_main_2x2_small.md").read_text().count("| TTM |") == 1


def test_several_tables_and_arms(reproduce, tmp_path):
    done = reproduce("--table", "sugarcrepe_1x2", "--rows", "sugarcrepe_siglip", "--iterations", 1)
    assert done.code == 0, done.err
    root = tmp_path / "runs"
    arms = {path.name for path in (root / "sugarcrepe_siglip_small").iterdir()}
    assert arms == {"replace_rel", "swap_att", "swap_obj", "add_att"}
    text = (root / "table_sugarcrepe_1x2_small.md").read_text()
    assert text.count("| raw |") == text.count("| TTM |") == 4


def test_names_that_no_table_has(reproduce):
    done = reproduce("--table", "global", "--rows", "mmvp_siglip")
    assert done.code == 2
    assert "global has global_siglip; not mmvp_siglip" in done.err
