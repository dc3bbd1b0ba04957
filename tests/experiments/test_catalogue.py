"""The catalogue of experiments: complete, true to the paper, light to look at."""

import json
import subprocess
import sys
from typing import get_args

import pytest
from paths import TESTS

from configs import PRESETS
from configs.experiments import (
    ABLATION_ITERATIONS,
    ABLATION_ORACLE,
    ABLATION_SCHEDULES,
    ABLATION_THRESHOLD,
    EXPERIMENTS,
    MMVP_SIGLIP,
    ROWS,
    SIMPLE_MATCH,
    WHERE,
)
from configs.world import SMALL_MODELS, WORLD
from experiments.__main__ import commands, lines
from ttm_jax.data import world
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.paper import paper_results
from ttm_jax.engine.recommended_settings import own_data_config
from ttm_jax.errors import InputError

REPO = TESTS.parent
ARMS = [(e, arm) for e in EXPERIMENTS for arm in e.arms]


class TestCatalogue:
    def test_every_preset_is_the_arm_of_one_row(self):
        arms = [arm for experiment in ROWS for arm in experiment.arms]
        assert sorted(arm.preset.name for arm in arms) == sorted(p.name for p in PRESETS)
        for arm in arms:
            assert arm.config() == arm.preset.ttm
            assert arm.table == arm.preset.table

    def test_every_experiment_is_a_command(self):
        assert {experiment.name for experiment in EXPERIMENTS} <= set(commands())

    def test_every_table_of_results_has_its_rows(self):
        """Whatever the paper has trained can be run, and reproduce finds it by its table."""
        runs = {
            (arm.table, arm.preset.dataset, arm.preset.model, arm.config().iterations)
            for _, arm in ARMS
        }
        for row in paper_results():
            if row.ttm is not None:
                assert (row.table, row.dataset, row.model, row.iterations) in runs
        assert set(WHERE) == {row.table for row in paper_results()}

    def test_labels_are_folders(self):
        for experiment in EXPERIMENTS:
            labels = [arm.label for arm in experiment.arms]
            assert len(set(labels)) == len(labels)
            assert all(label.replace(".", "").replace("_", "").isalnum() for label in labels)

    def test_only(self):
        chosen = ABLATION_ITERATIONS.only(["mmvp_vlm_T5", "winoground_T3"])
        assert [arm.label for arm in chosen.arms] == ["winoground_T3", "mmvp_vlm_T5"]
        for labels in (["mmvp_vlm_T4"], []):
            with pytest.raises(InputError, match="winoground_T3"):
                ABLATION_ITERATIONS.only(labels)


class TestAblations:
    def test_schedules(self):
        """Fig. 2: constant at 2, ascending from 0 to 2, decaying from 2 to 0."""
        from ttm_jax.training.schedules import tau_schedule

        ends = {}
        for arm in ABLATION_SCHEDULES.arms:
            config = arm.config()
            taus = tau_schedule(config.schedule, config.tau_1, config.tau_T, config.iterations)
            ends[arm.label] = (taus[0], taus[-1])
        assert ends == {"constant": (2, 2), "ascending": (0, 2), "decaying": (2, 0)}

    def test_threshold(self):
        assert [arm.config().tau_1 for arm in ABLATION_THRESHOLD.arms] == [2.5, 2.0, 1.5]
        small = [arm.config(small=True) for arm in ABLATION_THRESHOLD.arms]
        assert [config.tau_1 for config in small] == [None] * 3
        assert [config.coverage for config in small] == [0.18, 0.21, 0.30]

    def test_oracle(self):
        assert [arm.config().oracle for arm in ABLATION_ORACLE.arms] == [False, True]

    def test_simple_match_has_every_preset_with_square_groups(self):
        square = [p for p in PRESETS if BENCHMARKS[p.dataset].shape == (2, 2)]
        expected = [p.name for p in square if p.ttm.matching == "group"]
        assert [arm.label for arm in SIMPLE_MATCH.arms] == expected
        from experiments.simple_match import Args, Row

        assert list(get_args(Row)) == expected
        assert {label.removesuffix("_siglip_b16") for label in Args().row} == {
            "winoground", "mmvp_vlm", "colorswap",
        }  # fmt: skip

    def test_iterations(self):
        assert [arm.config().iterations for arm in ABLATION_ITERATIONS.arms] == [3, 5, 10] * 3


class TestSmall:
    def test_the_stand_in_has_the_same_shape(self):
        for name, stand_in in WORLD.items():
            assert world.VARIANTS[stand_in.variant].shape == BENCHMARKS[name].shape

    def test_no_two_benchmarks_are_the_same_groups(self):
        assert len(set(WORLD.values())) == len(WORLD)

    @pytest.mark.parametrize(
        "arm", [arm for _, arm in ARMS], ids=[f"{e.name}-{arm.label}" for e, arm in ARMS]
    )
    def test_the_kind_of_run_stays(self, arm):
        small, paper = arm.config(small=True), arm.config()
        for name in ("matching", "tau_unit", "schedule", "oracle", "augment", "keep_opt_state"):
            assert getattr(small, name) == getattr(paper, name)
        assert arm.preset.dataset in WORLD
        assert arm.preset.model in SMALL_MODELS


class TestOwnData:
    def test_batches(self):
        assert own_data_config([(2, 2), (1, 4)], "group").batch_groups == 50
        assert own_data_config([(1, 2), (1, 4)], "group").batch_groups == 100

    @pytest.mark.parametrize("generative", [False, True])
    def test_thresholds_come_from_the_coverage(self, generative):
        groups = own_data_config([(2, 2)], "group", generative=generative)
        assert groups.tau_1 is None
        assert 0.15 <= groups.first_coverage <= 0.30
        pairs = own_data_config([(9, 9)], "global", generative=generative)
        assert (pairs.tau_unit, pairs.first_coverage) == ("fraction", 0.5)


class TestListing:
    def test_a_line_each(self):
        page = lines()
        for experiment in EXPERIMENTS:
            (place,) = [n for n, text in enumerate(page) if text.split()[:1] == [experiment.name]]
            assert experiment.where in page[place]
            entry = " ".join(page[place : place + 4])  # long entries continue below
            assert all(model in entry for model in experiment.models)
        for name in commands():
            assert sum(text.split()[:1] == [name] for text in page) == 1

    def test_fits_a_narrow_terminal(self):
        assert max(len(line) for text in lines() for line in text.splitlines()) <= 80

    def test_mmvp(self):
        (line,) = [text for text in lines() if "mmvp_siglip " in text]
        assert line.split() == ["mmvp_siglip", "Table", "1", "siglip_b16", "+", "mmvp_vlm"]


FLAGS = (
    "--seeds", "--run-dir", "--no-resume", "--iterations", "--limit", "--small", "--lr", "--tau-1",
    "--keep-opt-state", "--dtype", "--precision", "--placement", "--exif", "--dry-run", "--config",
)  # fmt: skip
HELP = """
import contextlib, io, json, runpy, sys
from experiments.__main__ import commands
heavy = ("jax", "flax", "optax", "transformers", "torch", "matplotlib", "pyarrow", "openai")
report = {}
for name in ["__main__", *commands()]:
    sys.argv = [name, *([] if name == "__main__" else ["--help"])]
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            runpy.run_module("experiments." + name, run_name="__main__", alter_sys=True)
        except SystemExit as left:
            code = left.code or 0
    report[name] = [code, [m for m in heavy if m in sys.modules], text.getvalue()]
print(json.dumps(report))
"""


def test_every_help_answers_without_heavy_imports():
    """In a new process, one command after the other: nothing slow is imported for a help text."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HELP], cwd=REPO, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {name: [code, heavy] for name, (code, heavy, _) in report.items()} == {
        name: [0, []] for name in report
    }
    for experiment in EXPERIMENTS:
        text = report[experiment.name][2]
        for flag in FLAGS:
            assert flag in text, experiment.name
        # the commands of the description name the module
        assert f"python -m experiments.{experiment.name}" in text
    for name, flag in (("sugarcrepe_siglip", "subset"), ("whatsup_clip", "variant")):
        (experiment,) = [e for e in EXPERIMENTS if e.name == name]
        assert f"--{flag}" in report[name][2]
        assert all(arm.label in report[name][2] for arm in experiment.arms)
    assert MMVP_SIGLIP.name in report["__main__"][2]
