"""Verdicts: the same count, within two standard deviations, or off; and the tables around them."""

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs import PRESETS, find_preset
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.paper import find_result, paper_results
from ttm_jax.engine.result import TTMResult
from ttm_jax.report.tables.beside_paper import csv_text, markdown, print_comparison
from ttm_jax.report.tables.paper_layout import gain_cells
from ttm_jax.report.tables.verdict import (
    Comparison,
    Number,
    compare,
    judge,
    judge_mean,
    judge_raw,
    paper_row,
)

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


@pytest.mark.parametrize(
    ("right", "kind", "text"),
    [
        ((102, 102, 102, 102), "equal", "equal"),
        ((102, 102, 102, 101), "within", "within one group in one run (-0.24)"),
        ((102, 102, 102, 103), "within", "within one group in one run (+0.24)"),
        ((102, 102, 101, 101), "off", "off by -0.49"),
        ((101,), "within", "within one group in one run (-0.97)"),
        ((100,), "off", "off by -1.94"),
    ],
)
def test_a_deviation_of_0_leaves_room_for_one_group_in_one_run(right, kind, text):
    """WhatsUp A on/under is 99.03 ± 0: 102 of 103 groups in all four runs."""
    paper = find_result("whatsup_a_on_under", "clip_b32")
    verdict = judge_mean("ttm", [100 * count / 103 for count in right], 103, paper)
    assert (verdict.kind, verdict.text) == (kind, text)


def test_the_floor_does_not_widen_a_tolerance_that_is_larger():
    paper = find_result("mmvp_vlm", "siglip_b16")  # ± 0.96, so two deviations are 1.92 points
    floor = 100 / (135 * 4)
    assert floor < 1.92
    assert judge("ttm", Number(89.44 - 1.93), Number(89.44, std=0.96), floor).kind == "off"
    verdict = judge_mean("ttm", [88.15, 88.15, 88.89, 88.89], 135, paper)
    assert verdict.here.std == pytest.approx(0.37)  # divides by n
    assert verdict.text == "within two standard deviations (-0.92)"
    assert judge_mean("ttm", [88.15], 135, paper).here.std is None


def test_means_of_gpt_are_judged_by_their_deviations():
    paper = find_result("winoground", "gpt_4_1")
    verdict = judge_mean("raw", [69.0, 69.5, 70.0, 70.5], 400, paper)
    assert (verdict.kind, verdict.paper.std) == ("equal", 0.56)
    assert judge_mean("simple_match", [90.0], 400, paper).text == (
        "within two standard deviations (-1.38)"
    )


def test_not_run():
    verdict = judge("raw", None, Number(69.75, std=0.56))
    assert (verdict.kind, verdict.text, verdict.difference) == ("not run", "not run", None)
    assert verdict.as_json()["here"] is None


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


GAINS = {  # of Tables 1 and 10 of the paper, as printed there
    ("winoground", "clip_b16"): ("+5.4", "+9.1 %", "13.6 %"),
    ("winoground", "siglip_b16"): ("+5.5", "+8.2 %", "16.7 %"),
    ("mmvp_vlm", "clip_b16"): ("+7.6", "+10.5 %", "27.7 %"),
    ("mmvp_vlm", "siglip_b16"): ("+8.0", "+9.8 %", "43.0 %"),
    ("colorswap", "siglip_l16"): ("+4.8", "+5.2 %", "54.8 %"),
    ("whatsup_a", "clip_b32"): ("+26.2", "+85.7 %", "37.8 %"),  # the paper prints 37.7
    ("whatsup_a_left_right", "clip_b32"): ("+55.1", "+135.1 %", "93.0 %"),
    ("sugarcrepe_add_att", "siglip_b16"): ("+5.3", "+6.3 %", "32.3 %"),
}


@pytest.mark.parametrize(("key", "printed"), GAINS.items(), ids=str)
def test_gains_are_those_that_the_paper_prints(key, printed):
    row = find_result(*key)
    comparison = Comparison(*key, "", (0, 1, 2, 3), compare(_results(row), row))
    assert gain_cells(comparison.gain("paper")) == printed
    assert comparison.gain("here").points == pytest.approx(
        comparison.gain("paper").points, abs=0.01
    )


def test_no_gain_without_both_numbers():
    row = replace(find_result("winoground", "siglip_b16"), ttm=None, ttm_std=None)
    comparison = Comparison(
        "winoground", "siglip_b16", "", (0,), compare(_results(TRAINED[0]), row)
    )
    assert comparison.gain("paper") is None
    assert gain_cells(None) == ("-", "-", "-")
    from_zero = Comparison("x", "y", "", (0,), (
        judge("raw", Number(0.0, 0, 9), None), judge("ttm", Number(100.0), None),
    ))  # fmt: skip
    assert gain_cells(from_zero.gain("here")) == ("+100.0", "-", "100.0 %")


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
        assert text.endswith("\nnot compared with the paper: a small model\n")
        assert "divides by n as the paper's does" in text

    def test_the_papers_columns(self):
        layout, verdicts, *_ = markdown(self.rows).split("\n\n")
        assert layout.splitlines()[2:] == [
            "| mmvp_vlm | siglip_b16 | paper | 22.96 | 81.48 | 89.44 ± 0.96 | +8.0 | +9.8 % "
            "| 43.0 % |",
            "|  |  | here | 22.96 | 81.48 | 89.44 ± 0.00 | +8.0 | +9.8 % | 43.0 % |",
            "| world (T=3) | tiny | here | 23.70 | 82.22 | 89.44 ± 0.00 | +7.2 | +8.8 % | 40.6 % |",
        ]
        for part in (layout, verdicts):
            assert len({line.count("|") for line in part.splitlines()}) == 1

    def test_rows_that_were_not_run(self):
        paper = find_result("winoground", "gpt_4_1")
        verdicts = (
            judge("raw", None, Number(paper.raw, std=paper.raw_std)),
            judge("simple_match", None, Number(paper.simple_match, std=paper.simple_match_std)),
        )
        text = markdown([Comparison("winoground", "gpt_4_1", "", (), verdicts)])
        assert "| winoground | gpt_4_1 | raw | 69.75 ± 0.56 | - | not run |" in text
        assert "| winoground | gpt_4_1 | paper | 69.75 ± 0.56 | 91.38 ± 0.80 | - |" in text
        assert "|  |  | not run | - | - | - | - | - | - |" in text

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
        assert float(lines[2]["paper_delta"]) == pytest.approx(7.96)
        assert float(lines[2]["error_reduction"]) == pytest.approx(43.0, abs=0.1)
        assert lines[0]["delta"] == lines[5]["paper_relative_gain"] == ""

    def test_on_the_screen(self, capsys):
        print_comparison(self.rows, "both")
        shown = capsys.readouterr().out
        assert "22.96 (31/135)" in shown
        assert "+9.8 %" in shown
        assert "not compared with the paper: a small model" in shown
