"""Tables on a terminal of 80 columns: no name and no number is cut."""

import sys

import pytest
from rich.console import Console

from ttm_jax.report import terminal as screens
from ttm_jax.report.tables.beside_paper import print_comparison
from ttm_jax.report.tables.result_row import ResultRow, print_rows
from ttm_jax.report.tables.verdict import Comparison, Number, judge

MODEL = "HuggingFaceTB/SmolVLM-256M-Instruct"


@pytest.fixture(params=[80, 200])
def width(request, monkeypatch):
    def terminal(_wide: int) -> Console:
        return Console(file=sys.stdout, width=request.param, force_terminal=True, color_system=None)

    monkeypatch.setattr(screens, "screen", terminal)
    return request.param


def shown(capsys, width: int) -> str:
    text = capsys.readouterr().out
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    return text


def row(model: str) -> ResultRow:
    return ResultRow(
        variant="color_swap", shape="2x2", model=model, matching="global", units=200,
        chance_raw=16.7, chance=0.2, raw=4.5, simple_match=10.25, ttm_mean=18.62, ttm_std=0.43,
        ttm_values=(18.62,), seeds=(0,),
    )  # fmt: skip


@pytest.mark.parametrize("model", ["small-siglip", MODEL])
def test_results(capsys, width, model):
    print_rows([row(model)], "title")
    text = shown(capsys, width)
    words = ["color_swap", "0.2", "4.50", "10.25", "18.62", "± 0.43", "+8.4", "(+81.7 %)", "9.3 %"]
    for word in words:
        assert word in text
    if model != MODEL or width == 200:
        assert model in text
    assert ("SimpleMatch" in text) == (width == 200)


@pytest.mark.parametrize("known", [True, False])
def test_beside_the_paper(capsys, width, known):
    names, paper = ("raw", "simple_match", "ttm"), Number(69.75, std=0.56) if known else None
    verdicts = tuple(judge(name, Number(57.5, std=2.5), paper) for name in names)
    row = Comparison("winoground", "siglip_b16", "tau 2", (0, 1), verdicts, note="a small model")
    print_comparison([row], "title")
    text = shown(capsys, width)
    for word in ("winoground", "(tau 2)", "siglip_b16", "SimpleMatch", "57.50 ± 2.50"):
        assert word in text
    assert ("69.75 ± 0.56" in text) == known
    if not known and width == 80:
        assert "verdict" not in text  # nothing stands in that column
