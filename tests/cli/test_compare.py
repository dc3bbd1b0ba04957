"""Two runs side by side: the paired test, what differs, and what cannot be compared."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from made_runs import (
    CONFIG,
    FATES,
    RIGHT,
    WRONG,
    fate_scores,
    pictured_dataset,
    write_fates,
    write_run,
)
from scipy.stats import binom

from ttm_jax.config import TTMConfig
from ttm_jax.errors import InputError
from ttm_jax.report.compare import compare_experiments, compare_runs, mcnemar
from ttm_jax.report.compare_print import print_comparisons
from ttm_jax.report.run_data import read_experiments, read_run

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_fates(root / "a")
    scores = fate_scores()
    scores[2] = np.stack([RIGHT, RIGHT, RIGHT, WRONG, RIGHT])
    for seed in (1, 2):
        write_run(root / "b" / f"seed_{seed}", pictured_dataset(), scores, CONFIG, seed)
    return root


def split(only_a, only_b, both=3, neither=2):
    a = [True] * only_a + [False] * only_b + [True] * both + [False] * neither
    b = [False] * only_a + [True] * only_b + [True] * both + [False] * neither
    return np.array(a), np.array(b)


class TestMcNemar:
    @pytest.mark.parametrize(
        ("only_a", "only_b", "p"),
        [
            (0, 0, 1.0),
            (1, 0, 1.0),
            (5, 5, 1.0),
            (0, 5, 2 / 2**5),
            (6, 0, 2 / 2**6),
            (1, 7, 2 * 9 / 2**8),
            (2, 8, 2 * 56 / 2**10),
        ],
    )
    def test_exact(self, only_a, only_b, p):
        found = mcnemar("group_match", *split(only_a, only_b))
        assert (found.only_a, found.only_b) == (only_a, only_b)
        assert found.p == pytest.approx(p)

    def test_agrees_with_the_binomial_tail(self):
        found = mcnemar("group_match", *split(11, 27))
        assert found.p == pytest.approx(2 * binom.cdf(11, 38, 0.5))
        swapped = mcnemar("group_match", *split(27, 11))
        assert swapped.p == pytest.approx(found.p)

    def test_agreement_does_not_count(self):
        few = mcnemar("x", *split(1, 7, both=0, neither=0))
        many = mcnemar("x", *split(1, 7, both=500, neither=90))
        assert few.p == many.p


class TestRuns:
    def test_counts_and_groups(self, runs):
        found = compare_runs(read_run(runs / "a" / "seed_0"), read_run(runs / "b" / "seed_1"))
        match, score = found.tests
        assert (match.metric, match.a, match.b) == ("group_match", 2, 4)
        assert (match.only_a, match.only_b) == (1, 3)
        assert (score.metric, score.a, score.b) == ("group_score", 2, 4)
        assert {d.name: d.right_in for d in found.differences} == {
            "to-wrong": "B", "still-wrong": "B", "still-right": "A", "tied": "B",
        }  # fmt: skip
        first = found.differences[0]
        assert first.captions[0].startswith("<script>")
        assert (first.matching_a, first.matching_b) == ((1, 0), (0, 1))
        assert (first.margin_a, first.margin_b) == pytest.approx((1.3, 1.6))

    def test_two_iterations_of_one_run(self, runs):
        run = read_run(runs / "a" / "seed_0")
        found = compare_runs(run, run, (0, 2))
        assert {d.name for d in found.differences} == {"to-right", "to-wrong"}
        assert found.changed == 2
        with pytest.raises(InputError, match="has iterations 0 to 2, not 3"):
            compare_runs(run, run, (0, 3))

    def test_the_same_seeds_are_paired(self, runs):
        (a, b) = read_experiments([runs])
        assert [c.seeds for c in compare_experiments(a, b)] == [(1, 1)]
        others = replace(b, runs=tuple(run for run in b.runs if run.seed == 2))
        assert [c.seeds for c in compare_experiments(a, others)] == [(0, 2)]

    def test_other_data_is_refused(self, runs, tmp_path):
        part = pictured_dataset().select([0, 1, 2])
        other = write_run(tmp_path / "part", part, [s[:3] for s in fate_scores()])
        with pytest.raises(InputError, match="not on the same data"):
            compare_runs(read_run(runs / "a" / "seed_0"), read_run(other))
        history = [np.eye(10)[None]] * 2
        whole = write_run(tmp_path / "global", pictured_dataset(), history, GLOBAL)
        with pytest.raises(InputError, match="one matches groups, the other globally"):
            compare_runs(read_run(runs / "a" / "seed_0"), read_run(whole))

    def test_global_pairs(self, tmp_path, capsys):
        swapped = np.eye(10)[[1, 0, *range(2, 10)]]
        run = write_run(tmp_path, pictured_dataset(), [np.eye(10)[None], swapped[None]], GLOBAL)
        found = compare_runs(read_run(run), read_run(run), (0, 1))
        assert [test.metric for test in found.tests] == ["global_match"]
        assert found.differences[0].captions == ("A: a red cat", "B: a blue cat")
        print_comparisons("a", "b", [found], 0)
        assert "another matching on 2 of 10 units" in capsys.readouterr().out

    def test_without_truth(self, tmp_path, capsys):
        run = write_run(tmp_path, pictured_dataset(truth=False), fate_scores())
        found = compare_runs(read_run(run), read_run(run), (0, 2))
        assert (found.tests, found.differences, found.changed) == ((), (), 2)
        print_comparisons("a", "b", [found], 0)
        assert "another matching on 2 of 5" in capsys.readouterr().out


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "ttm_jax.cli.main", "compare", *map(str, words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_command(runs):
    done = command(runs / "a", runs / "b", "--json")
    content = json.loads(done.stdout)
    assert content["seeds"][0]["tests"][0]["only_b"] == 3
    assert len(FATES) == content["seeds"][0]["units"]
    several = command(runs, runs / "b")
    assert (several.returncode, several.stderr) == (
        2,
        f"error: {runs} holds several experiments: a, b; give one of them\n",
    )
