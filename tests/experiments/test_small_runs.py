"""Every experiment from end to end with `--small`, at reduced size, and what it leaves behind."""

import json

import pytest
from commands import command, models, one_device, smolvlm  # noqa: F401  (fixtures)

from configs.experiments import EXPERIMENTS
from ttm_jax.files import read_json, read_lines

# The tokenizers of the tiny models have few words, so they cut captions.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning"),
    pytest.mark.long,
]
FAMILY = {"siglip_b16": "siglip", "siglip_l16": "siglip", "clip_b16": "clip", "clip_b32": "clip"}
GROUPS = 6
OTHERS = ("simple_match", "ablation_metrics", "ablation_coverage")  # no Test-Time Matching
TRAINED = [e for e in EXPERIMENTS if e.name not in OTHERS]


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """What was run before, and where; the tests share it."""
    return {}, tmp_path_factory.mktemp("small")


@pytest.fixture
def small(command, models, finished, request):  # noqa: F811
    """small("mmvp_siglip") -> the folder that the command has filled, and what it printed."""
    known, place = finished

    def run(name, iterations=2, seeds=(0,), again=False):
        if name not in known or again:
            known[name] = run_now(name, iterations, seeds)
        return known[name]

    def run_now(name, iterations, seeds):
        (experiment,) = [e for e in EXPERIMENTS if e.name == name]
        if experiment.models == ("smolvlm_256m",):
            model = request.getfixturevalue("smolvlm")
        else:
            model = models[FAMILY[experiment.models[0]]]
        done = command(
            name, "--small", "--quiet", "--limit", GROUPS, "--iterations", iterations,
            "--seeds", *seeds, "--model", model, "--run-dir", place / name,
        )  # fmt: skip
        assert done.code == 0, done.err
        return place / name, done.out

    return run


def folders_of(experiment, root):
    if len(experiment.arms) == 1:
        return {experiment.arms[0].label: root}
    return {arm.label: root / arm.label for arm in experiment.arms}


# The three of SmolVLM are the same program on other groups, and slow to compile.
LONG = ("mmvp_smolvlm", "colorswap_smolvlm")


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(e, marks=pytest.mark.slow if e.name in LONG else ()) for e in TRAINED],
    ids=lambda e: e.name,
)
def test_every_experiment(experiment, small):
    iterations = 3 if experiment.name == "ablation_iterations" else 2
    root, out = small(experiment.name, iterations=iterations)
    folders = folders_of(experiment, root)
    arms = [a for a in experiment.arms if folders[a.label].is_dir()]
    # only the runs of ten and five iterations are left out by --iterations 3
    assert {a.label for a in experiment.arms} - {a.label for a in arms} == {
        a.label for a in experiment.arms if a.changes.get("iterations", 0) > 3
    }
    for arm in arms:
        folder = folders[arm.label]
        said = read_json(folder / "experiment.json")
        assert (said["experiment"], said["arm"]) == (experiment.name, arm.label)
        assert (said["dataset"], said["model"]) == (arm.preset.dataset, arm.preset.model)
        assert (said["table"], said["small"]) == (arm.table, True)
        assert said["matching"] == arm.preset.ttm.matching
        rows = list(read_lines(folder / "seed_0" / "metrics.jsonl"))
        assert [row["iteration"] for row in rows] == list(range(iterations + 1))
        summary = read_json(folder / "summary.json")
        assert summary["data"]["groups"] == GROUPS
        numbers = {n["name"]: n for n in summary["comparison"]["numbers"]}
        match = "global_match" if said["matching"] == "global" else "group_match"
        assert numbers["ttm"]["here"]["percent"] == rows[-1]["metrics"][match]["percent"]
        assert numbers["raw"]["here"]["count"] == rows[0]["metrics"]["group_score"]["count"]
        assert all(number["paper"] is None for number in numbers.values())
    assert "a small model on the procedural world" in " ".join(out.split())
    assert (root / "results.csv").exists() == (root / "results.md").exists() == (len(arms) > 1)


class TestAblations:
    def test_schedules_move_as_they_say(self, small):
        root, _ = small("ablation_schedules")
        taus = {
            name: [row["tau"] for row in list(read_lines(root / name / "seed_0/metrics.jsonl"))[1:]]
            for name in ("constant", "ascending", "decaying")
        }
        high = taus["decaying"][0]
        assert high > 0
        expected = {"constant": [high, high], "ascending": [0, high], "decaying": [high, 0]}
        assert taus == expected

    def test_the_oracle_selects_what_is_right(self, small):
        root, _ = small("ablation_oracle")
        for name in ("ttm", "oracle"):
            rows = list(read_lines(root / name / "seed_0" / "ledger.jsonl"))
            agree = [row["selected"] == row["right"] for row in rows]
            assert all(agree) == (name == "oracle")

    def test_metrics(self, small, command, tmp_path):  # noqa: F811
        root, out = small("ablation_metrics")
        for model in ("clip_b16", "siglip_b16"):
            raw = read_json(root / model / "summary.json")["raw"]
            assert raw["global_match"]["of"] == raw["individual_match"]["of"] == 2 * GROUPS
            assert raw["group_match"]["of"] == raw["group_score"]["of"] == GROUPS
            assert raw["group_score"]["count"] <= raw["group_match"]["count"]
        text = (root / "results.md").read_text()
        assert text in out
        # the columns are named by what was scored, not by what it stands in for
        assert "clip_b16" not in text
        assert "siglip_b16" not in text
        assert "not the paper's numbers: a small model on the procedural world" in text
        done = command("figures", root, "-o", tmp_path)  # Figure 4, left
        assert done.code == 0, done.err
        assert (tmp_path / "figure_4_analyses.png").read_bytes().startswith(b"\x89PNG")

    def test_coverage(self, small, command):  # noqa: F811
        root, out = small("ablation_coverage")
        for name in ("winoground", "sugarcrepe_replace_rel"):
            assert (root / name / "coverage.png").read_bytes().startswith(b"\x89PNG")
            raw = read_json(root / name / "summary.json")["raw"]
            # the score file is an ordinary one
            done = command("evaluate", root / name / "scores.npz", "--json")
            assert json.loads(done.out)["metrics"]["group_match"] == raw["group_match"]
        assert "coverage.png" in out.replace("\n", "")


class TestSimpleMatch:
    ARGS = ("--small", "--quiet", "--limit", GROUPS, "--row", "colorswap_siglip_b16")

    def test_overfits_and_says_how_far_it_got(self, command, models, tmp_path):  # noqa: F811
        args = (*self.ARGS, "--model", models["siglip"], "--run-dir", tmp_path, "--lr", 1e-3)
        done = command("simple_match", *args, "--max-epochs", 40)
        assert done.code == 0, done.err
        folder = tmp_path / "colorswap_siglip_b16"
        found = read_json(folder / "seed_0" / "simple_match.json")
        score, before = found["metrics"]["group_score"], found["raw_metrics"]["group_match"]
        assert 0 < found["epochs"] <= 40
        assert found["agreement"] > 0.5  # trained towards its own matchings
        off = score["count"] - before["count"]
        text = (tmp_path / "results.md").read_text()
        assert text in done.out
        assert ("| yes |" if off == 0 else f"| off by {off:+d} group") in text.splitlines()[2]
        assert "not compared with the paper: a small model" in text
        again = command("simple_match", *args, "--max-epochs", 40)
        assert again.out == done.out  # nothing is computed again
        other = command("simple_match", *args, "--max-epochs", 5)
        assert other.code == 2
        assert "was run with other settings" in other.err

    def test_only_square_groups(self, command, tmp_path):  # noqa: F811
        done = command("simple_match", "--row", "whatsup_a_clip_b32")
        assert done.code == 2


@pytest.mark.parametrize("name", ["mmvp_siglip", "ablation_metrics"])
def test_dry_run_writes_nothing(command, models, tmp_path, monkeypatch, name):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    done = command(
        name, "--small", "--limit", GROUPS, "--dry-run", "--model", models["siglip"],
        "--iterations", 2,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "nothing was written" in done.out
    assert list(tmp_path.iterdir()) == []
    if name == "mmvp_siglip":
        assert "mmvp_siglip mmvp_vlm: 4 seeds, in " in done.out
        assert "for each of 4 seeds" in done.out  # the time is that of all
        assert "2 iterations" in done.out
        assert "not compared with the paper: a small model" in done.out


def test_settings_from_a_saved_run(command, models, small, tmp_path):  # noqa: F811
    root, _ = small("colorswap_clip")
    saved = root / "seed_0" / "config.json"
    done = command(
        "colorswap_clip", "--small", "--quiet", "--limit", GROUPS, "--seeds", 0, "--run-dir",
        tmp_path, "--model", models["clip"], "--config", saved,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert read_json(tmp_path / "seed_0" / "config.json") == read_json(saved)
    lines = [list(read_lines(p / "seed_0" / "metrics.jsonl")) for p in (root, tmp_path)]
    assert [row["metrics"] for row in lines[0]] == [row["metrics"] for row in lines[1]]


def test_a_variant_of_the_world_takes_the_same_flags(command, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    args = ("small", "--variant", "left_right", "--groups", GROUPS, "--seeds", 0, "--quiet")
    flags = ("--tau-1", 0.25, "--placement", "sharded", "--precision", "high", "--iterations", 1)
    done = command(*args, *flags, "--dry-run")
    assert (done.code, list(tmp_path.iterdir())) == (0, [])
    assert "nothing was written" in done.out
    done = command(*args, *flags, "--epochs", 1, "--run-dir", tmp_path / "first")
    assert done.code == 0, done.err
    saved = tmp_path / "first" / "seed_0" / "config.json"
    settings = read_json(saved)["config"]
    found = [settings[name] for name in ("tau_1", "placement", "precision", "iterations", "epochs")]
    assert found == [0.25, "sharded", "high", 1, 1]
    done = command(*args, "--config", saved, "--epochs", 2, "--run-dir", tmp_path / "again")
    assert done.code == 0, done.err
    again = read_json(tmp_path / "again" / "seed_0" / "config.json")["config"]
    assert again == {**settings, "epochs": 2}


def test_the_same_command_again_and_with_another_seed(small):
    """What is done is not done again; a seed that is added joins the summary."""
    root, first = small("colorswap_clip")
    kept = ("metrics.jsonl", "ledger.jsonl", "matchings.jsonl", "config.json", "environment.json")
    files = [root / "seed_0" / name for name in kept]
    before = [path.read_bytes() for path in files]
    root, again = small("colorswap_clip", again=True)
    assert again == first
    assert [path.read_bytes() for path in files] == before
    small("colorswap_clip", seeds=(0, 1), again=True)
    assert [path.read_bytes() for path in files] == before
    summary = read_json(root / "summary.json")
    assert summary["seeds"] == [0, 1]
    assert len(summary["final"]["group_match"]["values"]) == 2
    assert {path.name for path in root.iterdir() if path.is_dir()} == {"seed_0", "seed_1"}


class TestMistakes:
    def test_a_folder_of_another_experiment(self, small, command, models, tmp_path):  # noqa: F811
        root, _ = small("mmvp_clip")
        done = command(
            "colorswap_clip", "--small", "--limit", GROUPS, "--seeds", 7, "--run-dir", root,
            "--model", models["clip"],
        )  # fmt: skip
        assert done.code == 2
        assert "holds another experiment: experiment: mmvp_clip -> colorswap_clip" in done.err
        assert not (root / "seed_7").exists()

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["--seeds", "1", "1"], "expected different whole numbers"),
            (["--seeds", "-1"], "expected different whole numbers"),
            (["--limit", "0"], "--limit is 0; expected at least 1"),
            (["--iterations", "0"], "--iterations is 0; expected at least 1"),
            (["--model", "no/such-model"], "no/such-model"),
        ],
    )
    def test_one_line_and_exit_code_2(self, command, tmp_path, args, message):  # noqa: F811
        done = command("mmvp_siglip", "--small", "--run-dir", tmp_path / "run", *args)
        assert done.code == 2
        assert message in done.err
        *progress, error = done.err.splitlines()
        assert error.startswith("error: ")
        assert progress in ([], ["mmvp_siglip mmvp_vlm: loading data and model"])

    def test_too_few_iterations_for_the_ablation(self, command):  # noqa: F811
        done = command("ablation_iterations", "--small", "--iterations", 2)
        assert done.code == 2
        assert "the shortest runs of the paper have 3" in done.err
