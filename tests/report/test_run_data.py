"""Reading run folders: seeds together, decisions, the paper's rows, tables, margins."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from ttm_jax.data.paper import find_result
from ttm_jax.errors import InputError
from ttm_jax.report.decisions import decisions, unit_names
from ttm_jax.report.margins import calibration, common_edges, margin_bins, threshold_points
from ttm_jax.report.run_data import read_experiments, read_one, read_run
from ttm_jax.report.tables.from_runs import csv_text, latex, markdown, summary_rows, write_tables
from ttm_jax.report.tables.paper_numbers import paper_result, pretty
from ttm_jax.runs.pictures import find_pictures, save_pictures


@pytest.fixture(scope="module")
def fates(tmp_path_factory):
    return write_fates(tmp_path_factory.mktemp("runs") / "fates")


class TestPictures:
    def test_what_is_kept(self, fates):
        kept = find_pictures(fates / "seed_0")
        assert [group.id for group in kept.groups] == list(unit_names(read_run(fates / "seed_0")))
        first = kept.groups[0]
        assert [kept.captions[c] for c in first.captions] == ["a red cat", "a blue cat"]
        assert (first.truth, first.tags) == ((0, 1), ("even", "<b>to-right</b>"))
        files = kept.thumbnails()
        assert len(files) == 10
        assert all(data.startswith(b"\xff\xd8") for data in files)  # JPEG

    def test_seeds_share_those_of_the_experiment(self, tmp_path):
        dataset = pictured_dataset()
        save_pictures(tmp_path, dataset)
        for seed in (0, 1):
            save_pictures(tmp_path / f"seed_{seed}", dataset)
            assert not (tmp_path / f"seed_{seed}").exists()
            assert find_pictures(tmp_path / f"seed_{seed}").folder == tmp_path

    def test_other_data_beside_keeps_its_own(self, tmp_path):
        save_pictures(tmp_path, pictured_dataset())
        other = pictured_dataset().select([0, 1])
        save_pictures(tmp_path / "seed_0", other)
        assert len(find_pictures(tmp_path / "seed_0").groups) == 2
        assert len(find_pictures(tmp_path / "seed_1").groups) == 5

    def test_written_once(self, tmp_path):
        save_pictures(tmp_path, pictured_dataset())
        before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        save_pictures(tmp_path, pictured_dataset())
        assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
        assert sorted(path.name for path in before) == ["groups.json", "thumbnails.zip"]

    def test_arrays_have_pictures_but_no_captions(self, tmp_path):
        images = np.zeros((2, 2, 8, 8, 3), np.float32)
        dataset = GroupedDataset.from_arrays(images, np.zeros((2, 2, 4), np.int32))
        save_pictures(tmp_path, dataset)
        kept = find_pictures(tmp_path)
        assert kept.captions == (None,) * 4
        assert kept.groups[0].truth is None
        assert len(kept.thumbnails()) == 4

    def test_broken_picture_names_its_group_and_leaves_nothing(self, tmp_path):
        (tmp_path / "bad.jpg").write_bytes(b"not a picture")
        groups = [Group("broken one", (tmp_path / "bad.jpg",), ("a", "b"), (0,))]
        with pytest.raises(InputError, match="broken one"):
            save_pictures(tmp_path / "run", GroupedDataset.from_groups(groups))
        assert not list((tmp_path / "run").iterdir())

    def test_damaged_archive(self, tmp_path):
        save_pictures(tmp_path, pictured_dataset())
        (tmp_path / "thumbnails.zip").write_bytes(b"PK")
        with pytest.raises(InputError, match=r"thumbnails\.zip: cannot be read"):
            find_pictures(tmp_path).thumbnails()


class TestFolders:
    def test_seeds_are_one_experiment(self, fates):
        for given_paths in ([fates], [fates / "seed_0", fates / "seed_1"], [fates.parent, fates]):
            (experiment,) = read_experiments(given_paths)
            assert experiment.seeds == (0, 1)
            assert experiment.name == "fates"

    def test_other_settings_are_another_experiment(self, tmp_path):
        write_fates(tmp_path / "a", (0,))
        write_fates(tmp_path / "deep" / "a", (0,), config=replace(CONFIG, lr=1.0))
        write_run(tmp_path / "a" / "seed_1", pictured_dataset(), fate_scores(),
                  replace(CONFIG, epochs=9), seed=1)  # fmt: skip
        names = [experiment.name for experiment in read_experiments([tmp_path])]
        assert len(names) == len(set(names)) == 3

    def test_seeds_in_the_order_of_numbers(self, tmp_path):
        write_fates(tmp_path, (10, 9))
        assert read_experiments([tmp_path])[0].seeds == (9, 10)

    def test_unfinished_run_shows_what_it_has(self, tmp_path):
        path = write_run(tmp_path, pictured_dataset(), fate_scores()[:2])
        run = read_run(path)
        assert (run.last, run.finished) == (1, False)

    def test_mistakes(self, tmp_path, fates):
        with pytest.raises(InputError, match="does not exist"):
            read_experiments([tmp_path / "nothing"])
        with pytest.raises(InputError, match="has no run in it"):
            read_experiments([tmp_path])
        with pytest.raises(InputError, match=r"several runs; give one: .*seed_0"):
            read_one(fates)
        assert read_one(fates / "seed_1").seed == 1
        (tmp_path / "config.json").write_text("{}")
        (tmp_path / "metrics.jsonl").write_text('{"iteration": 0, "metrics": {}}\n')
        with pytest.raises(InputError, match="not the settings of a run"):
            read_run(tmp_path)

    def test_missing_scores_are_named(self, tmp_path):
        run = read_run(write_run(tmp_path, pictured_dataset(), fate_scores()))
        (tmp_path / "scores" / "001_2x2.npz").unlink()
        with pytest.raises(InputError, match=r"001_2x2\.npz: no such file"):
            run.scores(1)


class TestDecisions:
    def test_right_and_scored(self, fates):
        found = decisions(read_run(fates / "seed_0"), 0)
        #                             to-right  to-wrong  still-wrong  still-right  tied
        assert found.right.tolist() == [False, True, False, True, False]
        assert found.scored.tolist() == [False, True, False, False, False]
        np.testing.assert_allclose(found.confidence, [1.3, 1.6, 1.3, 0.05, 0.0], atol=1e-6)
        assert found.unique.tolist() == [True, True, True, True, False]

    def test_agree_with_the_metrics_of_the_run(self, fates):
        run = read_run(fates / "seed_0")
        for t in range(3):
            found = decisions(run, t)
            assert found.right.sum() == run.rows[t]["metrics"]["group_match"]["count"]
            assert found.scored.sum() == run.rows[t]["metrics"]["group_score"]["count"]

    def test_global_units_are_images(self, tmp_path):
        config = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)
        rng = np.random.default_rng(0)
        history = [rng.normal(size=(1, 10, 10)), np.eye(10)[None]]
        run = read_run(write_run(tmp_path, pictured_dataset(), history, config))
        assert decisions(run, 1).right.all()
        assert unit_names(run)[3] == "image 3"
        assert decisions(run, 1).scored is None

    def test_without_truth(self, tmp_path):
        run = read_run(write_run(tmp_path, pictured_dataset(truth=False), fate_scores()))
        assert decisions(run, 2).right is None
        assert not run.has_truth


class TestMargins:
    MARGIN = np.array([0.1, 0.2, 0.3, 0.4, 0.0])
    UNIQUE = np.array([True, True, True, True, False])
    RIGHT = np.array([False, True, True, True, False])

    def test_thresholds(self):
        points = threshold_points(self.MARGIN, self.UNIQUE, self.RIGHT)
        assert [(p.tau, p.coverage) for p in points] == [(0.1, 80), (0.2, 60), (0.3, 40), (0.4, 20)]
        assert [p.precision for p in points] == [75, 100, 100, 100]
        assert threshold_points(self.MARGIN, ~self.UNIQUE & False, None) == []

    def test_no_precision_of_a_handful(self):
        """It ends at five units: the share of right ones among fewer says nothing."""
        margin = np.linspace(0, 1, 100)
        points = threshold_points(margin, np.ones(100, bool), np.ones(100, bool))
        assert points[-1].coverage == 5

    @given(st.lists(st.floats(0, 10, width=32), min_size=1, max_size=60), st.integers(0, 2**32))
    def test_histogram_counts_everything_once(self, values, seed):
        margin = np.array(values)
        right = np.random.default_rng(seed).random(len(margin)) < 0.5
        bins = margin_bins(margin, right, common_edges(margin))
        assert sum(b.right for b in bins) == right.sum()
        assert sum(b.count for b in bins) == len(margin)

    def test_calibration_bins(self):
        margin = np.arange(40.0)
        bins = calibration(margin, margin >= 20, bins=4)
        assert [(b.margin, b.right, b.count) for b in bins] == [
            (4.5, 0, 10), (14.5, 0, 10), (24.5, 100, 10), (34.5, 100, 10),
        ]  # fmt: skip
        assert bins[0].low == 0
        assert 0 < bins[0].high < 40  # Wilson, 10 of 10

    def test_infinite_margins_do_not_matter(self):
        margin = np.array([1.0, math.inf, 2.0, 0.5, 1.5, 0.1])
        assert np.isfinite(common_edges(margin)).all()
        assert all(math.isfinite(b.margin) for b in calibration(margin, margin > 1))


@pytest.fixture(scope="module")
def mmvp(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper") / "mmvp_siglip"
    for seed in (0, 1):
        paper_run(folder, MMVP, seed)
    return folder


class TestPaper:
    def test_row_by_dataset_and_source(self, mmvp):
        (experiment,) = read_experiments([mmvp])
        assert paper_result(experiment, NAMES) == find_result("mmvp_vlm", "siglip_b16")
        assert paper_result(experiment, {}) is None

    def test_row_by_experiment_json(self, mmvp):
        (experiment,) = read_experiments([mmvp])
        info = {"dataset": "mmvp_vlm", "model": "siglip_b16", "small": False}
        assert paper_result(replace(experiment, info=info), {}).ttm == 89.44
        named = replace(experiment, info=info)
        assert (named.dataset, named.model) == ("mmvp_vlm", "siglip_b16")

    def test_small_stand_ins_do_not_take_the_names_of_the_paper(self, fates):
        info = {"dataset": "mmvp_vlm", "model": "siglip_b16", "small": True}
        (experiment,) = read_experiments([fates])
        small = replace(experiment, info=info)
        assert paper_result(small, {}) is None
        assert (small.dataset, small.model) == ("made", "memory")

    def test_other_settings_have_no_ttm(self, tmp_path):
        paper_run(tmp_path / "a", replace(MMVP, lr=1e-5))
        paper_run(tmp_path / "b", replace(MMVP, oracle=True))
        paper_run(tmp_path / "c", replace(MMVP, iterations=3))
        lr, oracle, three = (
            paper_result(read_experiments([tmp_path / name])[0], NAMES) for name in "abc"
        )
        assert (lr.raw, lr.simple_match, lr.ttm) == (22.96, 81.48, None)
        assert oracle.ttm is None
        assert three.ttm == 85.19  # the table of fewer iterations

    def test_other_number_of_groups_is_other_data(self, tmp_path):
        paper_run(tmp_path, MMVP, groups=134)
        assert paper_result(read_experiments([tmp_path])[0], NAMES) is None

    def test_what_the_command_said_not_to_compare(self, tmp_path):
        paper_run(tmp_path, MMVP)
        (tmp_path / "summary.json").write_text(
            json.dumps({"comparison": {"note": "another model than the paper's"}})
        )
        assert paper_result(read_experiments([tmp_path])[0], NAMES) is None

    def test_names(self):
        assert pretty("mmvp_vlm") == "MMVP-VLM"
        assert pretty("sugarcrepe_swap_att") == "SugarCrepe Swap att"
        assert pretty("world-x") == "world-x"


class TestTables:
    def test_row(self, mmvp):
        (row,) = summary_rows(read_experiments([mmvp]), NAMES)
        assert (row.result.raw, row.result.simple_match) == (100 * 31 / 135, 100 * 110 / 135)
        assert row.result.ttm_mean == pytest.approx(100 * 118.5 / 135)
        assert row.result.ttm_std == pytest.approx(50 / 135)  # divides by n, as the paper's
        assert row.difference("ttm") == pytest.approx(100 * 118.5 / 135 - 89.44)
        assert row.error_reduction == pytest.approx(100 * 8.5 / 25)

    def test_markdown_in_the_layout_of_the_paper(self, mmvp):
        text = markdown(summary_rows(read_experiments([mmvp]), NAMES))
        assert "divided by n as in the paper" in text.splitlines()[-1]
        assert text.splitlines()[2] == (
            "| MMVP-VLM | SigLIP-B16 | 22.96 | 81.48 | 87.78 ± 0.37 | +6.3 (+7.7 %) | 34.0 % "
            "| 22.96 | 81.48 | 89.44 ± 0.96 | -1.66 |"
        ).replace("SigLIP-B16", "google/siglip")

    def test_csv_has_all_digits(self, mmvp):
        text = csv_text(summary_rows(read_experiments([mmvp]), NAMES))
        (row,) = csv.DictReader(text.splitlines())
        assert float(row["simple_match"]) == 100 * 110 / 135
        assert row["paper_ttm"] == "89.44"
        assert row["seeds"] == "0 1"

    def test_latex(self, mmvp, fates):
        text = latex(summary_rows(read_experiments([mmvp, fates]), NAMES))
        assert text.count("\\midrule") == 2
        assert "\\multicolumn{8}{l}{\\textbf{MMVP-VLM}}" in text
        assert "87.78 $\\pm$ 0.37" in text
        assert "34.0 \\% & 89.44 $\\pm$ 0.96 & -1.66" in text
        rows = [line for line in text.splitlines() if line.startswith("\\quad")]
        assert [line.count("&") for line in rows] == [7, 7]

    def test_latex_escapes(self, tmp_path):
        write_run(tmp_path / "seed_0", pictured_dataset("50%_of $x & {y}"), fate_scores())
        text = latex(summary_rows(read_experiments([tmp_path]), {}))
        assert "50\\%\\_of \\$x \\& \\{y\\}" in text

    def test_rows_that_look_the_same_get_a_label(self, tmp_path):
        write_fates(tmp_path / "a", (0,))
        write_fates(tmp_path / "b", (0,), config=replace(CONFIG, lr=1.0))
        write_fates(tmp_path / "c", (0,), config=replace(CONFIG, oracle=True))
        rows = summary_rows(read_experiments([tmp_path]), {})
        assert [row.label for row in rows] == ["a", "b", "oracle"]

    def test_files(self, fates, tmp_path):
        rows = summary_rows(read_experiments([fates]), {})
        assert [path.name for path in write_tables(rows, tmp_path)] == [
            "results.md", "results.csv", "results.tex",
        ]  # fmt: skip
        with pytest.raises(InputError, match="none of the runs knows the truth"):
            write_tables([], tmp_path)
