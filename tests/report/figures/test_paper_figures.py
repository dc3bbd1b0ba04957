"""The paper's figures: drawn from the runs there are, and nothing else."""

from dataclasses import replace

import matplotlib.figure
import matplotlib.image
import numpy as np
import pytest
from made_runs import (
    CONFIG,
    MMVP,
    fate_scores,
    paper_run,
    pictured_dataset,
    write_fates,
    write_run,
)

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.files import write_json
from ttm_jax.report.figures.panels import SHOWN, wrapped
from ttm_jax.report.figures.paper import drawings, write_figures
from ttm_jax.report.figures.sources import find_sources

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Everything that the four figures ask for."""
    root = tmp_path_factory.mktemp("runs")
    write_fates(root / "plain")
    write_fates(root / "constant", (0,), config=replace(CONFIG, schedule="constant"))
    write_fates(root / "ascending", (0,), config=replace(CONFIG, schedule="ascending"))
    write_fates(root / "oracle", (0,), config=replace(CONFIG, oracle=True))
    write_fates(root / "earlier", (0,), config=replace(CONFIG, tau_1=0.5))
    write_run(root / "global" / "seed_0", pictured_dataset(), [np.eye(10)[None]] * 2, GLOBAL)
    rng = np.random.default_rng(0)
    groups = [Group(str(n), (np.zeros((4, 4, 3), np.uint8),), ("a", "b"), (0,)) for n in range(30)]
    single = GroupedDataset.from_groups(groups, "single")
    history = [rng.normal(size=(30, 1, 2)) for _ in range(3)]
    write_run(root / "single" / "seed_0", single, history)
    return root


def test_all_four(folder, tmp_path):
    written, missing = write_figures(
        find_sources([folder]), tmp_path, formats=("png", "pdf", "svg")
    )
    assert missing == []
    names = ["figure_1_main", "figure_2_thresholds", "figure_3_one_by_k", "figure_4_analyses"]
    assert [p.name for p in written] == [f"{n}.{k}" for n in names for k in ("png", "pdf", "svg")]
    for path in written:
        head = path.read_bytes()[:5]
        assert head.startswith(
            {".png": b"\x89PNG", ".pdf": b"%PDF-", ".svg": b"<?xml"}[path.suffix]
        )
    picture = matplotlib.image.imread(tmp_path / "figure_4_analyses.png")
    assert picture.shape[1] == 3 * 860  # three panels
    assert picture[..., :3].std() > 0.05  # not an empty sheet


def paper_experiment(
    root, name, arm, dataset, model, scores, config=CONFIG, small=False, seeds=(0,)
):
    """A run as an experiment of the paper leaves it."""
    folder = root / name / arm
    said = {"experiment": name, "arm": arm, "dataset": dataset, "model": model, "small": small}
    write_json(folder / "experiment.json", said)
    shape = scores[0].shape[1:]
    groups = [
        Group(str(n), tuple(np.zeros((4, 4, 3), np.uint8) for _ in range(shape[0])),
              tuple("abcd"[: shape[1]]), tuple(range(shape[0])))
        for n in range(len(scores[0]))
    ]  # fmt: skip
    data = GroupedDataset.from_groups(groups, f"drawn_{dataset}" if small else dataset)
    for seed in seeds:
        write_run(folder / f"seed_{seed}", data, scores, config, seed)
    return folder


def noise(seed, shape=(20, 2, 2), iterations=2):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) + t * np.eye(*shape[1:]) for t in range(iterations + 1)]


def texts_of(drawing):
    """Every text in the panels of a figure, one list per panel."""
    from matplotlib.figure import Figure

    found = []
    for panel in drawing.panels:
        axes = Figure().subplots()
        panel(axes)
        ticks = [label.get_text() for label in axes.get_xticklabels()]
        found.append([axes.get_title(), *ticks, *(text.get_text() for text in axes.texts)])
    return found


class TestByName:
    def test_figure_2_takes_winoground_and_replace_rel(self, tmp_path):
        """However the folders are called and ordered, and though there are others."""
        for name, dataset, model, shape in (
            ("a_other", "mmvp_vlm", "siglip_b16", (20, 2, 2)),
            ("b_other", "sugarcrepe_add_att", "siglip_b16", (20, 1, 2)),
            ("c_clip", "winoground", "clip_b16", (20, 2, 2)),
            ("y_siglip", "winoground", "siglip_b16", (20, 2, 2)),
            ("z_rel", "sugarcrepe_replace_rel", "siglip_b16", (20, 1, 2)),
        ):
            paper_experiment(tmp_path, name, "x", dataset, model, noise(1, shape))
        panels = texts_of(drawings(find_sources([tmp_path]), {})[1])
        titles = [texts[0] for texts in panels]
        assert titles == ["Winoground, SigLIP-B16", "SugarCrepe Replace rel, SigLIP-B16"]

    def test_the_papers_data_goes_before_its_stand_in(self, tmp_path):
        for name, small in (("a_small", True), ("b_real", False)):
            paper_experiment(tmp_path, name, "x", "winoground", "siglip_b16", noise(1), small=small)
        (texts,) = texts_of(drawings(find_sources([tmp_path]), {})[1])
        assert texts[0] == "Winoground, SigLIP-B16"
        (texts,) = texts_of(drawings(find_sources([tmp_path / "a_small"]), {})[1])
        assert texts[0].startswith("drawn_winoground")

    def test_schedules_with_other_settings_are_not_compared(self, tmp_path):
        """A run of three iterations is not the decaying arm of one of two."""
        base = {"dataset": "winoground", "model": "siglip_b16", "scores": noise(1)}
        longer = replace(CONFIG, iterations=3)
        paper_experiment(tmp_path, "a_longer", "x", config=longer, **base)
        paper_experiment(
            tmp_path, "b_constant", "x", config=replace(CONFIG, schedule="constant"), **base
        )
        assert "schedule only" in drawings(find_sources([tmp_path]), {})[1].missing[-1]
        paper_experiment(tmp_path, "c_decay", "x", config=CONFIG, **base)
        *_, texts = texts_of(drawings(find_sources([tmp_path]), {})[1])
        assert texts[1:4] == ["baseline", "constant", "decay"]

    def test_first_thresholds_are_sorted(self, tmp_path):
        for arm, tau in (("b", 0.5), ("a", 1.5), ("c", 1.0)):
            config = replace(CONFIG, tau_1=tau)
            paper_experiment(
                tmp_path, "ablation_threshold", arm, "winoground", "siglip_b16", noise(1), config
            )
        *_, texts = texts_of(drawings(find_sources([tmp_path]), {})[3])
        assert [text.partition("\n")[0] for text in texts[1:5]] == ["baseline", "1.5", "1", "0.5"]

    def test_ablations_do_not_crowd_figure_1(self, tmp_path):
        for name in ("ablation_oracle", "ablation_threshold", "winoground_siglip"):
            paper_experiment(tmp_path, name, "x", "winoground", "siglip_b16", noise(1))
        (texts,) = texts_of(drawings(find_sources([tmp_path]), {})[0])
        assert texts[1:2] == ["SigLIP-B16"]
        assert len([t for t in texts if "." in t]) == 3  # three bars


def measured(root, model, metrics, *, experiment="ablation_metrics", small=False):
    folder = root / experiment / model
    said = {"experiment": experiment, "arm": model, "dataset": "winoground", "model": model,
            "small": small}  # fmt: skip
    write_json(folder / "experiment.json", said)
    rates = {name: {"percent": v, "chance": CHANCE[name]} for name, v in metrics.items()}
    write_json(folder / "summary.json", {
        "raw": rates, "dataset": "winoground", "model": model, "note": "",
    })  # fmt: skip
    return folder


CHANCE = {"group_score": 16.67, "individual_match": 50.0, "global_match": 2.5, "group_match": 50.0}
FOUR = {"group_score": 7.25, "individual_match": 41.5, "global_match": 30.5, "group_match": 60.0}


class TestMeasured:
    def test_figure_4_left_from_ablation_metrics_alone(self, tmp_path):
        for model in ("clip_b16", "siglip_b16"):
            measured(tmp_path, model, FOUR)
        written, _ = write_figures(find_sources([tmp_path]), tmp_path / "out", formats=("svg",))
        assert [path.name for path in written] == ["figure_4_analyses.svg"]
        text = written[0].read_text()
        for said in ("CLIP-B16", "SigLIP-B16", "7.2", "41.5", "30.5", "60.0"):
            assert said in text

    def test_what_was_not_measured_leaves_a_gap(self, tmp_path):
        measured(tmp_path, "clip_b16", FOUR)
        measured(tmp_path, "siglip_b16", {"group_score": 10.25, "group_match": 67.0})
        (texts,) = texts_of(drawings(find_sources([tmp_path]), {})[3])
        numbers = sorted(float(t) for t in texts if "." in t)
        assert numbers == [7.2, 10.2, 30.5, 41.5, 60.0, 67.0]  # six bars, and none of 0.0

    def test_every_metric_has_its_own_level_of_chance(self, tmp_path):
        measured(tmp_path, "clip_b16", FOUR)
        (panel,) = drawings(find_sources([tmp_path]), {})[3].panels
        axes = matplotlib.figure.Figure().subplots()
        panel(axes)
        levels = [lines.get_segments()[0][0][1] for lines in axes.collections]
        assert levels == [CHANCE[name] for name in SHOWN]
        assert axes.get_legend_handles_labels()[1].count("chance") == 1

    def test_figure_2_from_ablation_coverage(self, tmp_path):
        folder = measured(tmp_path, "siglip_b16", FOUR, experiment="ablation_coverage")
        scores = noise(1)[1]
        np.savez(folder / "scores.npz", scores=scores, truth=np.tile([0, 1], (len(scores), 1)))
        (texts,) = texts_of(drawings(find_sources([tmp_path]), {})[1])
        assert texts[0] == "Winoground, SigLIP-B16"

    def test_the_command_reads_it(self, tmp_path, capsys):
        from ttm_jax.cli.figures import main

        measured(tmp_path, "clip_b16", FOUR)
        main([str(tmp_path / "ablation_metrics"), "--out", str(tmp_path / "out")])
        assert (tmp_path / "out" / "figure_4_analyses.png").exists()
        assert "not drawn, figure_1_main" in capsys.readouterr().out

    def test_an_empty_folder(self, tmp_path):
        with pytest.raises(InputError, match="has nothing to draw"):
            find_sources([tmp_path])


class TestGPT:
    def folder(self, root):
        def rate(count):
            return {"percent": 100 * count / 135, "count": count, "of": 135, "chance": 50.0}

        runs = [
            {"run": n, "metrics": {"group_score": rate(90 + n), "group_match": rate(119)}}
            for n in (1, 2)
        ]
        write_json(root / "mmvp_gpt" / "summary.json", {
            "model": "gpt-4.1", "served_models": {}, "dataset": "mmvp_vlm", "groups": 135,
            "runs": runs, "benchmark": {"benchmark": "mmvp_vlm"},
        })  # fmt: skip

    def test_own_numbers_replace_the_papers(self, tmp_path):
        run = tmp_path / "mmvp_siglip"
        paper_run(run, replace(MMVP, iterations=1))
        write_json(run / "experiment.json", {
            "experiment": "mmvp_siglip", "dataset": "mmvp_vlm", "model": "siglip_b16",
        })  # fmt: skip
        (before,) = texts_of(drawings(find_sources([tmp_path]), {})[0])
        assert "GPT-4.1 (paper)" in " ".join(before).replace("\n", " ")
        self.folder(tmp_path)
        (after,) = texts_of(drawings(find_sources([tmp_path]), {})[0])
        assert "GPT-4.1" in after
        assert "paper" not in " ".join(after)
        assert f"{100 * 91.5 / 135:.1f}" in after

    def test_alone(self, tmp_path):
        self.folder(tmp_path)
        (texts,) = texts_of(drawings(find_sources([tmp_path]), {})[0])
        assert texts[:2] == ["MMVP-VLM", "GPT-4.1"]


def test_many_datasets_make_a_grid_with_one_legend(tmp_path):
    for number in range(5):
        paper_experiment(tmp_path, f"exp_{number}", "x", f"data_{number}", "some-model", noise(1))
    write_figures(find_sources([tmp_path]), tmp_path / "out", formats=("png", "svg"))
    height, width = matplotlib.image.imread(tmp_path / "out" / "figure_1_main.png").shape[:2]
    assert (width, height) == (3 * 860, 2 * 680)
    text = (tmp_path / "out" / "figure_1_main.svg").read_text()
    assert text.count(">SimpleMatch<") == 1
    for number in range(5):
        assert f">data_{number}<" in text


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("SigLIP-B16", ["SigLIP-B16"]),
        (
            "SigLIP-B16 main_winoground/siglip_b16",
            ["SigLIP-B16", "main_", "winoground/", "siglip_b16"],
        ),
        ("google/siglip-base-patch16-224", ["google/siglip-", "base-patch16-", "224"]),
        ("averyveryverylongword", ["averyveryverylongword"]),
        ("/_/", ["/_/"]),
    ],
)
def test_names_break_between_their_parts(name, lines):
    assert wrapped(name).split("\n") == lines


def test_same_runs_same_file(folder, tmp_path):
    experiments = find_sources([folder])
    for name in "ab":
        write_figures(experiments, tmp_path / name, formats=("svg", "pdf"))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_numbers_stand_in_the_figure(folder, tmp_path):
    write_figures(find_sources([folder]), tmp_path, formats=("svg",))
    analyses = (tmp_path / "figure_4_analyses.svg").read_text()
    for text in ("GroupScore", "oracle", "baseline", "(60 %)", "(60 %)"):
        assert text in analyses
    schedules = (tmp_path / "figure_2_thresholds.svg").read_text()
    for text in ("ascend", "constant", "decay", "threshold on the margin"):
        assert text in schedules


def test_what_is_missing_is_said(folder, tmp_path):
    written, missing = write_figures(find_sources([folder / "single"]), tmp_path)
    assert [path.stem for path in written] == ["figure_2_thresholds", "figure_3_one_by_k"]
    assert "figure_1_main: no runs on groups of k x k" in missing
    assert any("oracle" in text for text in missing)
    assert len(missing) == 6, missing


def test_ablations_are_not_bars_of_the_main_figure(folder):
    main = drawings(find_sources([folder / "oracle"]), {})[0]
    assert main.panels == ()


def test_without_truth(tmp_path):
    write_run(tmp_path, pictured_dataset(truth=False), fate_scores())
    with pytest.raises(InputError, match="none of the runs knows the truth"):
        write_figures(find_sources([tmp_path]), tmp_path / "out")
