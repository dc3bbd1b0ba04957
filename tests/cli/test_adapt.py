"""`ttm adapt`: own folders of every form in, matchings and an adapted model out."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import command, models, one_device, smolvlm  # noqa: F401  (fixtures)
from paths import TESTS
from PIL import Image

from ttm_jax.cli import adapt as adapt_command
from ttm_jax.config import TTMConfig
from ttm_jax.data import world
from ttm_jax.data.folder_reader import read_folder, write_folder
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.data.own_data import read_own_data
from ttm_jax.engine.cost_estimate import estimate, take_sample
from ttm_jax.files import read_json, read_lines
from ttm_jax.load import load_model
from ttm_jax.report.dataset_line import describe

# The captions of the world are longer than what the tiny models read.
pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
REPO = TESTS.parent
QUICK = ("--iterations", 2, "--epochs", 2, "--lr", 1e-3, "--quiet")


def groups_of(variant: str, count: int, truth: bool = True) -> list[Group]:
    dataset = world.make(variant, count, size=32)
    (block,) = dataset.blocks
    return [
        Group(
            id=block.ids[row],
            images=tuple(dataset.images[i] for i in block.image_index[row]),
            captions=tuple(dataset.captions[i] for i in block.text_index[row]),
            truth=tuple(block.truth[row].tolist()) if truth else None,
        )
        for row in range(count)
    ]


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Mixed shapes with truth, one shape without, and two plain lists."""
    place = tmp_path_factory.mktemp("own")
    mixed = [*groups_of("color_swap", 4), *groups_of("relation_choice", 3)]
    write_folder(mixed, place / "mixed")
    write_folder(groups_of("color_swap", 6, truth=False), place / "unknown")
    flat = world.make("color_swap", 3, size=32).ungrouped()
    write_folder(flat, place / "lists", grouped=False)
    return {path.name: path for path in place.iterdir()}


@pytest.fixture
def adapt(command, models, folders, tmp_path):  # noqa: F811
    def run(name, *args):
        return command("adapt", "--model", models["siglip"], "--data", folders[name],
            "--out", tmp_path / "out", *QUICK, *args,
        )  # fmt: skip

    return run


class TestForms:
    def test_mixed_shapes_with_truth(self, adapt, folders, tmp_path):
        done = adapt("mixed")
        assert done.code == 0, done.err
        lines = list(read_lines(tmp_path / "out" / "matchings.jsonl"))
        listed = {line["id"]: line for line in read_lines(folders["mixed"] / "groups.jsonl")}
        assert {line["id"] for line in lines} == set(listed)
        for line in lines:
            said = listed[line["id"]]
            # file names and captions are those of the user's list
            assert (line["images"], line["captions"]) == (said["images"], said["captions"])
            assert line["truth"] == said["truth"]
            assert line["matched"] == [line["captions"][i] for i in line["matching"]]
        summary = read_json(tmp_path / "out" / "summary.json")
        right = sum(line["matching"] == line["truth"] for line in lines)
        assert summary["final"]["group_match"]["count"] == right
        assert summary["raw"]["group_match"]["of"] == summary["units"] == 7
        assert summary["changed"] == sum(line["matching"] != line["before"] for line in lines)
        assert "mixed: 7 groups (4 of 2x2, 3 of 1x4), 11 images and 20 captions" in done.out
        assert f"({right}/7), chance" in done.out

    def test_the_first_threshold_is_that_of_the_coverage_rule(self, adapt, tmp_path):
        assert adapt("mixed", "--coverage", 0.4).code == 0
        rows = list(read_lines(tmp_path / "out" / "run" / "metrics.jsonl"))
        assert rows[1]["selected"] == 3  # the least number that is 40 % of 7
        assert rows[-1]["selected"] == 7

    def test_the_adapted_model_is_an_ordinary_folder(self, adapt, folders, models, tmp_path):  # noqa: F811
        assert adapt("mixed").code == 0
        data = read_folder(folders["mixed"])
        model, first = load_model(tmp_path / "out" / "model"), load_model(models["siglip"])
        scores = model.score(list(data.images), list(data.captions))
        assert not np.array_equal(scores, first.score(list(data.images), list(data.captions)))
        run = load_model(tmp_path / "out" / "run")
        np.testing.assert_array_equal(run.score(list(data.images), list(data.captions)), scores)

    def test_without_truth_there_are_matchings_and_no_scores(self, adapt, tmp_path):
        done = adapt("unknown")
        assert done.code == 0, done.err
        summary = read_json(tmp_path / "out" / "summary.json")
        assert summary["raw"] == summary["final"] == {}
        lines = list(read_lines(tmp_path / "out" / "matchings.jsonl"))
        assert all("truth" not in line and sorted(line["matching"]) == [0, 1] for line in lines)
        assert "truth unknown" in done.out
        assert "chance" not in done.out
        assert (tmp_path / "out" / "model" / "model.safetensors").exists()

    def test_the_truth_changes_nothing(self, adapt, tmp_path, folders, command, models):  # noqa: F811
        """The same groups with and without labels end with the same matchings."""
        write_folder(groups_of("color_swap", 6), tmp_path / "known" / "unknown")
        assert adapt("unknown").code == 0
        done = command(
            "adapt", "--model", models["siglip"], "--data", tmp_path / "known" / "unknown",
            "--out", tmp_path / "with", *QUICK,
        )  # fmt: skip
        assert done.code == 0, done.err
        names = ("id", "matching", "margin", "before")
        with_truth, without = (
            [
                {name: line[name] for name in names}
                for line in read_lines(tmp_path / out / "matchings.jsonl")
            ]
            for out in ("with", "out")
        )
        assert with_truth == without

    def test_plain_lists(self, adapt, folders, tmp_path):
        done = adapt("lists")
        assert done.code == 0, done.err
        assert "lists: 6 images and 6 captions without groups, truth known" in done.out
        lines = list(read_lines(tmp_path / "out" / "matchings.jsonl"))
        captions = [line["caption"] for line in read_lines(folders["lists"] / "captions.jsonl")]
        images = [line["image"] for line in read_lines(folders["lists"] / "images.jsonl")]
        assert [line["image"] for line in lines] == images
        assert sorted(line["caption"] for line in lines) == list(range(6))
        assert all(line["matched"] == captions[line["caption"]] for line in lines)
        rows = list(read_lines(tmp_path / "out" / "run" / "metrics.jsonl"))
        assert [row["selected"] for row in rows[1:]] == [3, 6]  # half of the pairs, then all

    def test_groups_can_be_dissolved(self, adapt, tmp_path):
        done = adapt("unknown", "--matching", "global")
        assert done.code == 0, done.err
        lines = list(read_lines(tmp_path / "out" / "matchings.jsonl"))
        assert sorted(line["caption"] for line in lines) == list(range(12))


@pytest.mark.slow
def test_a_generative_model(command, smolvlm, folders, tmp_path):  # noqa: F811
    args = ("--model", smolvlm, "--data", folders["unknown"], "--out", tmp_path / "out", *QUICK)
    done = command("adapt", *args, "--dry-run")
    assert done.code == 0, done.err
    assert "2 iterations of 2 epochs, 6 groups per batch" in done.out
    done = command("adapt", *args)
    assert done.code == 0, done.err
    assert (
        read_json(tmp_path / "out" / "run" / "config.json")["config"]["tau_unit"] == "probability"
    )
    assert len(list(read_lines(tmp_path / "out" / "matchings.jsonl"))) == 6
    load_model(tmp_path / "out" / "model")
    done = command("adapt", *args, "--matching", "global", "--out", tmp_path / "other")
    assert done.code == 2
    assert "use matching within groups" in done.err


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    """Drawings as photographs: numbered files and a table of pairs."""
    folder = tmp_path_factory.mktemp("own") / "photos"
    folder.mkdir()
    lines = ["image,caption"]
    for number, group in enumerate(groups_of("color_swap", 3)):
        for side in range(2):
            name = f"IMG_{number}{side}.png"
            Image.fromarray(np.asarray(group.images[side])).save(folder / name)
            lines.append(f'{name},"{group.captions[group.truth[side]]}"')
    (folder / "captions.csv").write_text("\n".join(lines) + "\n")
    return folder


class TestAnswer:
    """What is on the screen and in the folder at the end."""

    def test_photographs_and_a_table(self, command, models, photos, tmp_path):  # noqa: F811
        out = tmp_path / "out"
        args = ("--model", models["siglip"], "--data", photos, "--out", out, *QUICK)
        done = command("adapt", *args)
        assert done.code == 0, done.err
        rows = list(csv.DictReader((out / "matchings.csv").read_text().splitlines()))
        assert [row["image"] for row in rows] == sorted(p.name for p in photos.glob("*.png"))
        lines = list(read_lines(out / "matchings.jsonl"))
        assert [row["caption"] for row in rows] == [line["matched"] for line in lines]
        assert [row["truth"] for row in rows] == list(read_folder_captions(photos))
        for row in rows:
            assert row["image"] in done.out
            assert 0 <= float(row["confidence"]) <= 1
            assert row["runner_up"] != row["caption"]
        assert "least certain: " in done.out
        assert f"finished; {out}" in done.out
        assert "<html" in (out / "report.html").read_text()
        assert "| GroupMatch |" in (out / "model" / "README.md").read_text() or (
            "global" in (out / "model" / "README.md").read_text()
        )
        again = command("adapt", *args[:-1])  # not quiet
        assert "this run is finished already" in again.err

    def test_several_seeds_without_a_page(self, adapt, tmp_path):
        done = adapt("mixed", "--seeds", 0, 1, "--no-page", "--keep-checkpoints", 1)
        assert done.code == 0, done.err
        out = tmp_path / "out"
        assert not (out / "report.html").exists()
        for seed in (0, 1):
            assert len(list((out / "run" / f"seed_{seed}" / "checkpoints").glob("[0-9]*"))) == 1
        rows = list(csv.DictReader((out / "matchings.csv").read_text().splitlines()))
        assert {row["seeds"] for row in rows} == {"2"}
        assert {row["agree"] for row in rows} <= {"1", "2"}
        assert re.search(r"GroupMatch: .*over 2 seeds \d+\.\d\d ± ", done.out)

    @pytest.mark.long
    def test_a_rate_is_found_where_nobody_recommends_one(self, command, models, folders, tmp_path):  # noqa: F811
        args = ("--model", models["siglip"], "--data", folders["mixed"], "--iterations", 1,
            "--epochs", 1, "--out", tmp_path / "out")  # fmt: skip
        done = command("adapt", *args)
        assert done.code == 0, done.err
        said = re.search(r"^lr (\S+?)[,:]", done.err, re.MULTILINE)
        used = read_json(tmp_path / "out" / "run" / "config.json")["config"]["lr"]
        assert float(said[1]) == used
        again = command("adapt", *args)
        assert again.code == 0, again.err
        assert "looking for a learning rate" not in again.err

    def test_single_pairs_have_nothing_to_match(self, command, models, tmp_path):  # noqa: F811
        groups = [replace(g, images=g.images[:1], captions=g.captions[:1], truth=None)
            for g in groups_of("color_swap", 3)]  # fmt: skip
        data = write_folder(groups, tmp_path / "single")
        done = command("adapt", "--model", models["siglip"], "--data", data)
        assert done.code == 2
        assert "nothing to match" in done.err


def read_folder_captions(folder: Path) -> list[str]:
    rows = csv.DictReader((folder / "captions.csv").read_text().splitlines())
    return [row["caption"] for row in rows]


class TestDryRun:
    @pytest.mark.parametrize(
        ("name", "counts"),
        [
            ("mixed", "7 groups (4 of 2x2, 3 of 1x4), 11 images and 20 captions in all"),
            ("lists", "6 images and 6 captions without groups"),
        ],
    )
    def test_says_what_it_would_take_and_writes_nothing(self, adapt, tmp_path, name, counts):
        done = adapt(name, "--dry-run")
        assert done.code == 0, done.err
        assert counts in done.out
        for word in ("tau_1: ", "memory: about ", "disk: about ", "time: ", "nothing was written"):
            assert word in done.out
        assert not (tmp_path / "out").exists()

    def test_tau_1_is_the_one_that_the_run_starts_with(self, adapt, tmp_path):
        said = re.search(r"tau_1: (\S+),", adapt("mixed", "--dry-run").out)[1]
        assert adapt("mixed").code == 0
        used = read_json(tmp_path / "out" / "summary.json")["tau_1"]
        assert said == f"{used:.4g}"

    def test_steps_of_a_larger_set_are_counted_from_a_sample(self, one_device, models, folders):  # noqa: F811
        from ttm_jax.engine.recommended_settings import own_data_config

        dataset = world.make("color_swap", 90, size=16)
        config = own_data_config([(2, 2)], "group")
        found = estimate(load_model(models["siglip"]), dataset, config)
        assert (found.units, found.sampled, found.batch) == (90, 64, 50)
        assert found.most_steps == 10 * 20 * 2  # 90 groups are two batches
        assert 10 * 20 <= found.least_steps <= found.most_steps
        assert len(found.taus) == 10
        assert 0 < found.step_bytes < found.available_bytes
        assert found.seconds(found.least_steps) <= found.seconds(found.most_steps)

    def test_samples(self, folders):
        from ttm_jax.engine.recommended_settings import own_data_config

        mixed = read_folder(folders["mixed"])
        sample = take_sample(mixed, own_data_config([(2, 2)], "group"), 4)
        assert [(block.shape, len(block)) for block in sample.blocks] == [((2, 2), 2), ((1, 4), 2)]
        lists = read_folder(folders["lists"])
        sample = take_sample(lists, own_data_config([(6, 6)], "global"), 4)
        assert sample.blocks[0].shape == (4, 4)
        assert len(sample.images) == 4


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "args", "message"),
        [
            ("mixed", ["--data", "no/such/folder"], "no/such/folder does not exist"),
            ("mixed", ["--model", "no/such-model"], "no/such-model"),
            ("mixed", ["--lr", "-1"], "lr is -1.0; expected a positive number"),
            ("mixed", ["--coverage", "2"], "coverage is 2.0; expected"),
            ("mixed", ["--seeds", "-1"], "seed -1: expected"),
            ("lists", ["--matching", "group"], "has no groups; --matching group"),
        ],
    )
    def test_one_line_and_exit_code_2(self, adapt, tmp_path, name, args, message):
        done = adapt(name, *args)
        assert done.code == 2
        assert message in done.err
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1
        assert not (tmp_path / "out").exists()

    def test_a_list_with_a_mistake_names_its_line(self, adapt, folders, tmp_path):
        bad = tmp_path / "bad"
        bad.mkdir()
        (bad / "groups.jsonl").write_text('{"id": 1, "images": ["a.png"], "caption": ["x"]}\n')
        done = adapt("mixed", "--data", bad)
        assert done.code == 2
        assert "groups.jsonl line 1: captions missing" in done.err

    def test_a_picture_that_is_torn_names_its_group(self, adapt, tmp_path):
        write_folder(groups_of("color_swap", 2), tmp_path / "torn")
        (tmp_path / "torn" / "images" / "00002.png").write_bytes(b"torn")
        done = adapt("mixed", "--data", tmp_path / "torn")
        assert done.code == 2
        assert "color_swap-test-0-0001" in done.err
        assert "00002.png" in done.err

    def test_a_folder_with_another_run(self, adapt):
        assert adapt("unknown").code == 0
        done = adapt("unknown", "--iterations", 1)
        assert done.code == 2
        assert "config.iterations: 2 -> 1" in done.err
        done = adapt("unknown", "--no-resume")
        assert done.code == 2
        assert "already holds a run" in done.err


@pytest.mark.long
def test_killed_and_taken_up_again(adapt, folders, models, tmp_path):  # noqa: F811
    """SIGKILL in the middle; the same command ends with the files of an undisturbed run."""
    args = ["--model", models["siglip"], "--data", folders["unknown"], "--iterations", 6,
            "--epochs", 2, "--lr", 1e-3, "--quiet", "--out", tmp_path / "killed"]  # fmt: skip
    words = [sys.executable, "-m", "ttm_jax.cli.main", "adapt", *map(str, args)]
    # One device, as the fixture has it; what the first process compiles, the second need not.
    env = {
        **os.environ,
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    process = subprocess.Popen(words, cwd=REPO, env=env, stdout=subprocess.DEVNULL)
    metrics = tmp_path / "killed" / "run" / "metrics.jsonl"
    while process.poll() is None and len(list(read_lines(metrics))) < 3:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done_before = list(read_lines(metrics))
    assert 3 <= len(done_before) < 7
    assert not (tmp_path / "killed" / "summary.json").exists()
    assert not (tmp_path / "killed" / "model").exists()
    again = subprocess.run(words, cwd=REPO, env=env, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert adapt("unknown", "--iterations", 6).code == 0
    for name in ("matchings.jsonl", "model/model.safetensors", "summary.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


@pytest.mark.long
def test_the_worked_example_of_the_page(command, models, tmp_path, monkeypatch):  # noqa: F811
    """Every command of the example in docs/own_data.md, with a model that is at hand."""
    page = (REPO / "docs" / "own_data.md").read_text(encoding="utf-8")
    example = page.split("## A worked example")[1].split("\n## ")[0]
    monkeypatch.chdir(tmp_path)
    names = []
    for line in re.findall(r"^ttm (.+)$", example.replace("\\\n", " "), re.M):
        name, *args = shlex.split(line, comments=True)
        args = [models["siglip"] if before == "--model" else word
                for before, word in zip(["", *args], args, strict=False)]  # fmt: skip
        quick = QUICK if name == "adapt" else ("--size", 32)
        done = command(name, *args, *quick)
        assert done.code == 0, done.err
        names.append(name)
    assert names == ["world", "adapt", "adapt", "adapt"]
    line = next(read_lines(tmp_path / "runs" / "mine" / "matchings.jsonl"))
    shown = json.loads(re.search(r'^\{"id".*\}$', example, re.M)[0])
    assert list(line) == list(shown)  # the keys that the page shows


def test_what_was_found_is_said_before_the_model(command, folders, tmp_path):  # noqa: F811
    shown = command("adapt", "--model", tmp_path / "none.npz", "--data", folders["lists"])
    assert shown.code == 2
    first, second, *_ = shown.err.splitlines()
    assert first == "lists: 6 images and 6 captions without groups, truth known"
    assert second.startswith("loading ")


def test_a_recommended_rate_with_other_settings(capsys, folders):
    model, data = load_model("small-siglip"), read_own_data(folders["unknown"])
    args = adapt_command.Args(model="small-siglip", data=Path("x"), iterations=1)
    config = TTMConfig(lr=2e-4, iterations=1, epochs=10)
    assert adapt_command.with_rate(args, model, data, config, model.advice) == config
    assert capsys.readouterr().err == (
        "lr 0.0002, recommended by the model; 1 iteration of 10 epochs\n"
    )


def test_names_in_a_description_are_text():
    picture = np.zeros((4, 4, 3), np.uint8)
    group = Group("1", (picture,), ("a", "b"), (0,))
    dataset = GroupedDataset.from_groups([group], "a\x1b[31m\nb")
    assert describe(dataset, TTMConfig()) == (
        "a\\x1b[31m\\nb: 1 group (1 of 1x2), 1 image and 2 captions in all, truth known"
    )


def test_a_tracker_without_its_package_is_refused_before_the_model_is_loaded(
    command,  # noqa: F811
    folders,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    done = command(
        "adapt", "--model", "no_such_model", "--data", folders["lists"], "--out", tmp_path / "out",
        "--tensorboard",
    )  # fmt: skip
    assert done.code == 2
    assert done.err == (
        "error: TensorBoard needs a package: pip install tensorboardX (the extra `tensorboard`)\n"
    )
