"""Any model on any data: the table, resume, what is missing, and data of one's own."""

import csv
import json

import other_layouts
import pytest
from commands import command, one_device  # noqa: F401  fixtures

from ttm_jax.data import world
from ttm_jax.data.folder_writer import write_folder
from ttm_jax.engine.diagnosis import diagnose
from ttm_jax.engine.evaluation import evaluate
from ttm_jax.engine.raw_scores import raw_scores
from ttm_jax.engine.recommended_settings import own_data_config
from ttm_jax.load import load_model
from ttm_jax.report.tables import zoo

# The small model knows the words of the procedural world only.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ttm_jax.inputs.model_advice.ForeignWordsWarning"),
    pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning"),
]
FEW = ("--limit", "20", "--quiet")


@pytest.fixture
def run(command, tmp_path):  # noqa: F811
    """run("--small", ...) in the same folder every time."""
    return lambda *args: command("zoo", *args, *FEW, "--run-dir", tmp_path / "runs")


@pytest.fixture
def no_scoring(monkeypatch):
    """From here on, scoring fails."""
    return lambda: monkeypatch.setattr(zoo, "measure", None)


def rows_in(tmp_path):
    with (tmp_path / "runs" / "zoo.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_small_models_on_the_world_and_resume(run, tmp_path, no_scoring):
    words = ("--small", "--model", "small-siglip", "--data", "world:color_swap", "world:left_right")
    done = run(*words)
    assert done.code == 0, done.err
    swap, side = rows_in(tmp_path)
    assert (swap["data"], swap["groups"], swap["shapes"]) == ("world:color_swap", "20", "2x2")
    assert swap["group_match_chance"] == "50.0"
    dataset, model = world.make("left_right", groups=20), load_model("small-siglip")
    expected = evaluate(raw_scores(model, dataset), dataset, "group")["group_match"]["count"]
    assert int(side["group_match_count"]) == expected
    table = (tmp_path / "runs" / "zoo.md").read_text(encoding="utf-8")
    assert "| data | groups | model | TextScore | ImageScore | GroupScore | GroupMatch |" in table
    stored = json.loads((tmp_path / "runs" / "zoo.json").read_text(encoding="utf-8"))["rows"]
    found = diagnose(model, dataset, own_data_config([(2, 2)], "group"))
    assert stored[1]["diagnosis"]["sentence"] == found.sentence
    assert f"- world:left_right, small-siglip: {found.sentence}" in table
    assert side["verdict"] == ("go ahead" if found.go_ahead else "no evidence")
    assert zoo.from_json(stored[0]).as_json() == stored[0]
    no_scoring()
    assert run(*words).out == done.out
    with pytest.raises(TypeError):  # with other settings it is another cell
        run(*words, "--exif", "on")


def test_a_damaged_cell_is_scored_again(run, tmp_path):
    words = ("--model", "small-siglip", "--data", "world:color_swap")
    first = run(*words)
    (cell,) = (tmp_path / "runs" / "cells").iterdir()
    for text in ("{", '{"format": 2}', '{"format": 1, "key": {}}'):
        cell.write_text(text)
        assert run(*words).out == first.out


def test_own_data_with_and_without_groups_and_labels(run, tmp_path):
    dataset = world.make("color_swap", groups=20)
    write_folder(dataset.without_truth(), tmp_path / "mine")
    write_folder(dataset.limit(4).ungrouped(), tmp_path / "whole", grouped=False)
    write_folder(dataset.limit(4), tmp_path / "few")
    folders = [tmp_path / name for name in ("mine", "whole", "few")]
    done = run("--model", "small-siglip", "--data", *folders)
    assert done.code == 0, done.err
    mine, whole, few = rows_in(tmp_path)
    assert (mine["group_match_percent"], mine["note"]) == ("", "")
    assert mine["verdict"] in ("go ahead", "no evidence")
    assert (whole["shapes"], whole["verdict"]) == ("8x8", "-")
    assert whole["global_match_chance"] == "12.5"
    assert whole["note"] == "a diagnosis needs groups; without groups there are no decoys"
    assert "has 4 groups; a diagnosis needs 20 or more" in few["note"]
    assert few["group_match_percent"] != ""


def test_a_benchmark_and_what_is_missing(run, tmp_path):
    other_layouts.naturalbench(tmp_path / "data", rows=3)
    other_layouts.karpathy(tmp_path / "data", "coco", rows=3)
    done = run(
        "--model", "small-siglip", "--model", tmp_path / "no model", "--data",
        "naturalbench_retrieval", "mmvp_vlm", "--data-dir", tmp_path / "data", "--no-fetch",
    )  # fmt: skip
    assert done.code == 2
    lines = done.err.splitlines()
    assert lines[0].startswith("missing: mmvp_vlm, small-siglip: mmvp_vlm is not in ")
    assert lines[0].endswith("`ttm data mmvp_vlm` fetches it")
    assert "no model: " in lines[1]
    assert lines[-1] == "error: 3 of 4 could not be scored, see above"
    assert len(lines) == 4
    found, *_ = rows_in(tmp_path)
    assert (found["data"], found["groups"], found["verdict"]) == (
        "naturalbench_retrieval",
        "3",
        "-",
    )
    table = (tmp_path / "runs" / "zoo.md").read_text(encoding="utf-8")
    assert "| mmvp_vlm | - | small-siglip |" in table
    assert "| missing |" in table


def test_pairs_without_groups_are_one_matching(tmp_path):
    from ttm_jax.data.benchmarks.catalogue import load_benchmark

    other_layouts.karpathy(tmp_path, "coco", rows=3)
    dataset = load_benchmark("coco_5k", tmp_path, check_counts=False).dataset
    row = zoo.measure(load_model("small-siglip"), dataset, "coco_5k", "small", grouped=True)
    assert set(row.metrics) == {"global_match", "row_argmax"}
    assert row.metrics["global_match"]["of"] == 3
    assert (row.groups, row.shapes) == (3, ("1x1",))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "error: give --model and --data, or --small for an example without a download"),
        (("--model", "small-siglip"), "error: give --model and --data, or --small"),
        (
            ("--small", "--data", "nothing"),
            "error: --data nothing: no benchmark (ttm data --list), no variant of the world",
        ),
        (("--small", "--data", "world:nothing"), "error: "),
    ],
)
def test_mistakes_are_one_line(run, args, message):
    done = run(*args)
    assert done.code == 2
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1


def test_sources_stand_for_their_variants():
    from experiments.zoo import find_data

    assert len(find_data(("sugarcrepe", "sugarcrepe_swap_obj"))) == 7
    assert find_data(("whatsup_a", "world:color_swap")) == ("whatsup_a", "world:color_swap")


def test_text_of_users_stays_text(capsys):
    rate = {"percent": 50.0, "count": 1, "of": 2, "chance": 16.7}
    row = zoo.Row("a|b[red]", "m", 2, ("2x2",), {"group_score": rate, "group_match": rate})
    zoo.print_rows([row], "title")
    assert "a|b[red]" in capsys.readouterr().out
    assert "| a/b[red] | 2 2x2 | m | 50.00 (16.7) | 50.00 (16.7) | - |" in zoo.markdown([row])
