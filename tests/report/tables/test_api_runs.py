"""The table of a model behind an API, beside the paper's numbers for GPT-4.1."""

import numpy as np
import pytest

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.report.tables.api_runs import paper_row, result_text, summarise_runs
from ttm_jax.scorers.api import Prices, Replies, RequestSettings, RunScores, Usage, make_plan

# As printed in the paper's table 1: mean and ± of GroupScore and of SimpleMatch.
PRINTED = {
    "winoground": (400, 69.75, 0.56, 91.38, 0.80),
    "mmvp_vlm": (135, 68.15, 0.00, 88.52, 0.83),
    "colorswap": (300, 91.08, 0.28, 97.42, 0.14),
}


def summary_of(benchmark: str, scores: list[int], matches: list[int], comparable=True) -> dict:
    """Runs that got these numbers of groups right."""
    group = Group("g", (np.zeros((8, 8, 3), np.uint8),), ("a", "b"), (0,))
    plan = make_plan(GroupedDataset.from_groups([group], benchmark), RequestSettings())
    of = PRINTED[benchmark][0]

    def rate(count: int) -> dict:
        return {"count": count, "of": of, "percent": 100 * count / of, "chance": 25.0}

    metrics = [
        {"group_score": rate(s), "group_match": rate(m)}
        for s, m in zip(scores, matches, strict=True)
    ]
    runs = [RunScores(n + 1, (), {"yes": 4 * of}, 0, []) for n in range(len(scores))]
    replies = Replies(plan, {}, Usage(), Usage())
    paper = paper_row(benchmark) if comparable else None
    return summarise_runs(replies, runs, metrics, Prices(), paper)


@pytest.mark.parametrize("benchmark", PRINTED)
def test_the_paper_s_six_numbers_with_their_deviations(benchmark):
    row = paper_row(benchmark)
    found = (row.groups, row.raw, row.raw_std, row.simple_match, row.simple_match_std)
    assert found == PRINTED[benchmark]


def test_the_deviation_divides_by_n():
    """Counts that give the paper's own numbers for Winoground to the last digit, with n only."""
    summary = summary_of("winoground", [276, 278, 280, 282], [360, 366, 366, 370])
    result = summary["results"]["group_score"]
    percents = [69.0, 69.5, 70.0, 70.5]
    assert result["values"] == percents
    assert result["population_std"] == pytest.approx(np.std(percents))
    assert f"{result['population_std']:.2f}" == "0.56"
    assert f"{result['std']:.2f}" == "0.65"
    assert (result["paper"], result["paper_std"], result["verdict"]) == (69.75, 0.56, "equal")
    text = result_text(summary)
    assert "69.75 ± 0.56    69.75 ± 0.56   equal" in text
    assert "276/400, 278/400, 280/400, 282/400" in text
    assert "n, as the paper's does" in text


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        (279, "equal"),
        (283, "within two standard deviations (+1.00)"),
        (275, "within two standard deviations (-1.00)"),
        (284, "off by +1.25 (2.2 standard deviations)"),
        (100, "off by -44.75 (79.9 standard deviations)"),
    ],
)
def test_verdicts(score, verdict):
    summary = summary_of("winoground", [score] * 4, [366] * 4)
    assert summary["results"]["group_score"]["verdict"] == verdict
    assert verdict in result_text(summary)


def test_a_deviation_of_zero_in_the_paper_allows_one_group_in_one_run():
    assert (
        summary_of("mmvp_vlm", [92] * 4, [119] * 4)["results"]["group_score"]["verdict"] == "equal"
    )
    other = summary_of("mmvp_vlm", [93] * 4, [119] * 4)["results"]["group_score"]
    assert other["verdict"] == "off by +0.74"
    one = summary_of("mmvp_vlm", [92, 92, 92, 93], [119] * 4)["results"]["group_score"]
    assert one["verdict"] == "within one group in one run (+0.18)"


def test_other_data_have_no_verdict():
    summary = summary_of("winoground", [279] * 2, [366] * 2, comparable=False)
    assert summary["results"]["group_score"]["verdict"] is None
    text = result_text(summary)
    assert "verdict" not in text
    assert "69.75" in text, "the mean"
    assert "0.56" not in text


def test_one_run_has_no_deviation():
    text = result_text(summary_of("winoground", [279], [366]))
    assert "69.75    69.75 ± 0.56   equal" in text
    assert "divides by" not in text
