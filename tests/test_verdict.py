"""Verdicts: the same count, within two standard deviations, or off; and the tables around them."""

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs import PRESETS, find_preset
from ttm_jax.data.benchmarks import BENCHMARKS
from ttm_jax.data.paper import find_result, paper_results
from ttm_jax.report.comparison_table import csv_text, markdown, print_comparison
from ttm_jax.report.verdict import Comparison, Number, compare, judge, judge_raw, paper_row
from ttm_jax.ttm import TTMResult

TRAINED = [row for row in paper_results() if row.ttm is not None]


@pytest.mark.parametrize(
    ("here", "paper", "kind", "text"),
    [
        (Number(22.963, 31, 135), Number(22.96, 31, 135), "equal", "equal count"),
        (Number(23.7, 32, 135), Number(22.96, 31, 135), "off", "off by +1 (+0.74 points)"),
        (Number(22.96, 31, 135), Number(22.96, 31, 136), "off", "off by +0 (+0.00 points)"),
        (Number(89.44, std=1.0), Number(89.44, std=0.96), "equal", "equal"),
        (
            Number(91.36, std=1.0),
            Number(89.44, std=0.96),
            "within",
            "within two standard deviations (+1.92)",
        ),
        (
            Number(87.5, std=1.0),
            Number(89.44, std=0.96),
            "off",
            "off by -1.94 (2.0 standard deviations)",
        ),
        (Number(99.029, std=0.0), Number(99.03, std=0.0), "equal", "equal"),
        (Number(98.06, std=0.0), Number(99.03, std=0.0), "off", "off by -0.97"),
        (Number(50.0, std=None), None, "no number", "not in the paper"),
    ],
)
def test_judge(here, paper, kind, text):
    verdict = judge("ttm", here, paper)
    assert (verdict.kind, verdict.text) == (kind, text)


@given(st.integers(0, 400), st.integers(0, 400))
def test_counts_are_equal_or_off(ours, theirs):
    verdict = judge("raw", _count(ours), _count(theirs))
    assert verdict.kind == ("equal" if ours == theirs else "off")
    if ours != theirs:
        assert f"{ours - theirs:+d}" in verdict.text


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 10), st.floats(0, 1))
def test_nearer_is_never_worse(here, paper, std, share):
    order = ["equal", "within", "off"]
    theirs = Number(paper, std=std)
    far = judge("ttm", Number(here), theirs)
    near = judge("ttm", Number(paper + share * (here - paper)), theirs)
    assert order.index(near.kind) <= order.index(far.kind)
    assert (far.kind != "off") == (abs(here - paper) <= 2 * std + 0.005 + 1e-9)


def _count(count: int, of: int = 400) -> Number:
    return Number(100 * count / of, count, of)


def _results(row, shift: int = 0) -> list[TTMResult]:
    """Four runs with exactly the numbers of a row of the paper, its counts shifted."""
    groups = row.groups // 2 if row.matching == "global" else row.groups

    def rate(count: int, of: int, chance: float) -> dict:
        return {"percent": 100 * count / of, "count": count, "of": of, "chance": chance}

    raw = {"group_score": rate(row.raw_count + shift, groups, 16.7)}
    match = "global_match" if row.matching == "global" else "group_match"
    if row.simple_match_count is None:
        raw[match] = raw["group_score"]
    else:
        raw[match] = rate(row.simple_match_count + shift, row.groups, 50.0)
    final = {match: {"percent": row.ttm}}
    return [TTMResult((), None, None, None, final, raw, seed, None) for seed in range(4)]


@pytest.mark.parametrize("row", TRAINED, ids=lambda r: f"{r.table}-{r.dataset}-{r.model}")
def test_the_paper_agrees_with_itself(row):
    verdicts = compare(_results(row), row)
    names = ["raw", "simple_match", "ttm"]
    if row.simple_match is None:  # 1 x k: SimpleMatch is the raw score
        names.remove("simple_match")
    assert [verdict.name for verdict in verdicts] == names
    assert {verdict.kind for verdict in verdicts} == {"equal"}
    assert [v.text for v in verdicts[:-1]] == ["equal count"] * (len(names) - 1)


@pytest.mark.parametrize("row", TRAINED, ids=lambda r: f"{r.table}-{r.dataset}-{r.model}")
def test_one_group_more_is_off_by_one(row):
    *counted, ttm = compare(_results(row, 1), row)
    assert all(verdict.text.startswith("off by +1 (") for verdict in counted)
    assert ttm.kind == "equal"


def test_without_a_paper():
    for verdict in compare(_results(TRAINED[0]), None):
        assert verdict.paper is None
        assert verdict.difference is None
        assert verdict.kind == "no number"


def test_lists_that_never_were_groups_have_no_raw_score():
    rate = {"percent": 50.0, "count": 2, "of": 4, "chance": 25.0}
    (verdict,) = judge_raw({"global_match": rate, "row_argmax": rate}, None)
    assert verdict.name == "simple_match"
    assert verdict.here == Number(50.0, 2, 4)


class TestPaperRow:
    @pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
    def test_presets_have_theirs(self, preset):
        row = paper_row(preset.dataset, preset.model, preset.ttm, preset.ttm)
        assert row.table == preset.table
        assert row.ttm is not None
        assert row.groups % BENCHMARKS[preset.dataset].groups == 0

    def test_fewer_iterations_have_a_row_of_their_own(self):
        ttm = find_preset("mmvp_vlm", "siglip_b16").ttm
        row = paper_row("mmvp_vlm", "siglip_b16", ttm, replace(ttm, iterations=3))
        assert (row.table, row.iterations, row.ttm) == ("iterations", 3, 85.19)

    @pytest.mark.parametrize("change", [{"iterations": 4}, {"lr": 1e-3}, {"oracle": True}])
    def test_other_settings_keep_the_raw_numbers_only(self, change):
        ttm = find_preset("winoground", "siglip_b16").ttm
        row = paper_row("winoground", "siglip_b16", ttm, replace(ttm, **change))
        assert (row.raw_count, row.simple_match_count) == (41, 268)
        assert row.ttm is None
        assert row.ttm_std is None

    def test_what_the_paper_does_not_have(self):
        ttm = find_preset("winoground", "siglip_b16").ttm
        assert paper_row("sugarcrepe_add_obj", "siglip_b16", ttm, ttm) is None


class TestTables:
    row = find_result("mmvp_vlm", "siglip_b16")
    rows = (
        Comparison("mmvp_vlm", "siglip_b16", "", (0, 1, 2, 3), compare(_results(row), row)),
        Comparison("world", "tiny", "T=3", (7,), compare(_results(row, 1), None), "a small model"),
    )

    def test_markdown(self):
        text = markdown(self.rows)
        assert (
            "| mmvp_vlm | siglip_b16 | raw | 22.96 (31/135) | 22.96 (31/135) | equal count |"
            in text
        )
        assert "| TTM | 89.44 ± 0.96 | 89.44 ± 0.00 | equal |" in text
        assert "| world (T=3) | tiny | raw | - | 23.70 (32/135) | - |" in text
        assert text.endswith("\nnot beside the paper's: a small model\n")
        assert {line.count("|") for line in text.splitlines() if line.startswith("|")} == {7}

    def test_csv(self):
        lines = list(csv.DictReader(io.StringIO(csv_text(self.rows))))
        assert [line["number"] for line in lines] == ["raw", "simple_match", "ttm"] * 2
        assert (lines[0]["paper_count"], lines[0]["count"], lines[0]["of"]) == ("31", "31", "135")
        assert [line["verdict"] for line in lines] == ["equal"] * 3 + ["no number"] * 3
        assert (lines[2]["paper"], lines[2]["paper_std"], lines[2]["count"]) == (
            "89.44",
            "0.96",
            "",
        )
        assert lines[3]["paper"] == lines[3]["difference"] == ""
        assert (lines[3]["seeds"], lines[3]["note"]) == ("7", "a small model")

    def test_on_the_screen(self, capsys):
        print_comparison(self.rows, "both")
        shown = capsys.readouterr().out
        assert "22.96 (31/135)" in shown
        assert "not beside the paper's: a small model" in shown
