"""`experiments.reproduce`: whole tables from the runs of the single commands."""

import csv

import pytest
from commands import command, models, one_device  # noqa: F401  (fixtures)

from configs.experiments import GPT
from ttm_jax.files import read_json, write_json

# The tokenizers of the tiny models have few words, so they cut captions.
pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
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
    assert (root / "table_main_2x2_small.md").read_text().count("| TTM | - |") == 1


def test_one_reason_is_said_once(command, tmp_path):  # noqa: F811
    """Rows that share a benchmark lack it for the same reason, which is a long line."""
    nowhere = ("--no-fetch", "--data-dir", tmp_path / "data")
    rows = ("winoground_clip", "winoground_siglip", "winoground_siglip_l16")
    flags = [flag for flag in SMALL if flag != "--small"]
    done = command("reproduce", *flags, *nowhere, "--table", "main_2x2", "--rows", *rows,
        "--run-dir", tmp_path / "runs")  # fmt: skip
    assert done.code == 2
    said = [line for line in done.err.splitlines() if line.startswith("error: winoground")]
    assert said[1:] == [f"error: {name}: the same as for winoground_clip" for name in rows[1:]]
    assert said[0].startswith("error: winoground_clip: ")
    assert "ttm data winoground" in said[0]


def test_several_tables_and_arms(reproduce, tmp_path):
    done = reproduce("--table", "sugarcrepe_1x2", "--rows", "sugarcrepe_siglip", "--iterations", 1)
    assert done.code == 0, done.err
    root = tmp_path / "runs"
    arms = {path.name for path in (root / "sugarcrepe_siglip_small").iterdir()}
    assert arms == {"replace_rel", "swap_att", "swap_obj", "add_att"}
    text = (root / "table_sugarcrepe_1x2_small.md").read_text()
    assert text.count("| raw | - |") == text.count("| TTM | - |") == 4
    assert sum("| here | " in line for line in text.splitlines()) == 4 + 1  # and a heading


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--table", "global", "--rows", "mmvp_siglip"), "expected some of global_siglip"),
        (("--rows", "mmvp_siglipp"), "did you mean mmvp_siglip?"),
        (("--rows", "mmvp_siglip", "nonsense"), "--rows: there is no 'nonsense'"),
        (("--table", "global", "--rows", "mmvp_gpt"), "there is no 'mmvp_gpt'"),
    ],
)
def test_names_that_no_table_has(reproduce, tmp_path, args, message):
    done = reproduce(*args)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def gpt_summary(model="gpt-4.1-2025-04-14", groups=135, benchmark="mmvp_vlm"):
    """summary.json of a finished run, with the fields that a table needs."""

    def rate(count):
        return {"percent": 100 * count / groups, "count": count, "of": groups, "chance": 50.0}

    runs = [
        {"run": n + 1, "metrics": {"group_score": rate(92), "group_match": rate(118 + n)}}
        for n in range(4)
    ]
    return {
        "model": model, "served_models": {model: 4}, "dataset": benchmark, "groups": groups,
        "runs": runs, "benchmark": {"benchmark": benchmark},
    }  # fmt: skip


class TestGPT:
    """The rows of GPT-4.1 come from folders of its own commands; nobody is asked anything here."""

    def rows(self, command, root):  # noqa: F811
        done = command("reproduce", "--table", "main_2x2", "--rows", *GPT, "--run-dir", root)
        assert done.code == 0, done.err
        return list(csv.DictReader((root / "table_main_2x2.csv").read_text().splitlines()))

    def test_not_run(self, command, tmp_path):  # noqa: F811
        rows = self.rows(command, tmp_path)
        assert [row["dataset"] for row in rows][::2] == ["winoground", "mmvp_vlm", "colorswap"]
        assert {row["verdict"] for row in rows} == {"not run"}
        assert [row["paper"] for row in rows[:2]] == ["69.75", "91.38"]
        assert [row["paper_std"] for row in rows[:2]] == ["0.56", "0.8"]
        assert {row["here"] for row in rows} == {""}

    def test_a_finished_run_stands_beside_the_paper(self, command, tmp_path):  # noqa: F811
        write_json(tmp_path / "mmvp_gpt" / "summary.json", gpt_summary())
        rows = {(r["dataset"], r["number"]): r for r in self.rows(command, tmp_path)}
        assert rows["mmvp_vlm", "raw"]["verdict"] == "equal"
        match = rows["mmvp_vlm", "simple_match"]
        assert (match["verdict"], match["seeds"]) == ("equal", "1 2 3 4")
        assert float(match["std"]) == pytest.approx(0.828, abs=1e-3)  # the paper's 0.83
        assert rows["winoground", "raw"]["verdict"] == "not run"

    @pytest.mark.parametrize(
        ("change", "note"),
        [
            ({"model": "gpt-4.1-mini"}, "not the paper's model"),
            ({"groups": 134}, "not the paper's data"),
        ],
    )
    def test_another_model_or_fewer_groups_do_not(self, command, tmp_path, change, note):  # noqa: F811
        write_json(tmp_path / "mmvp_gpt" / "summary.json", gpt_summary(**change))
        rows = [r for r in self.rows(command, tmp_path) if r["dataset"] == "mmvp_vlm"]
        assert [row["verdict"] for row in rows] == ["no number"] * 2
        assert {row["note"] for row in rows} == {note}
        assert {row["paper"] for row in rows} == {""}

    def test_a_torn_summary_is_named(self, command, tmp_path):  # noqa: F811
        torn = gpt_summary() | {"runs": [{"run": 1}]}
        write_json(tmp_path / "mmvp_gpt" / "summary.json", torn)
        done = command(
            "reproduce", "--table", "main_2x2", "--rows", "mmvp_gpt", "--run-dir", tmp_path
        )
        assert done.code == 2
        assert "mmvp_gpt/summary.json is not that of a finished run" in done.err
