"""Tables on a terminal: names of models, data, files, tags and captions are text."""

import re
from pathlib import Path

import numpy as np
import pytest
from hostile import EVERYTHING, TEXTS
from rich.console import Console

from ttm_jax.matching.rate_interval import Rate
from ttm_jax.plain_text import one_line
from ttm_jax.report.tables.beside_paper import print_comparison
from ttm_jax.report.tables.logits import print_best
from ttm_jax.report.tables.result_row import ResultRow, print_rows
from ttm_jax.report.tables.scores import tag_table
from ttm_jax.report.tables.verdict import Comparison, Number, judge

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]")
every_text = pytest.mark.parametrize(
    "text", [*TEXTS.values(), EVERYTHING], ids=[*TEXTS, "everything"]
)


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "4000")
    for module in ("result_row", "beside_paper"):
        monkeypatch.setattr(f"ttm_jax.report.tables.{module}._WIDE", 4000)


def assert_text(out: str, text: str, times: int) -> None:
    assert not CONTROL.search(out)
    assert out.count(one_line(text)) >= times


@every_text
def test_results(capsys, text):
    row = ResultRow(
        variant=text, shape="2x2", model=text, matching="group", units=5, chance_raw=16.7,
        chance=50.0, raw=20.0, simple_match=40.0, ttm_mean=60.0, ttm_std=None,
        ttm_values=(60.0,), seeds=(0,),
    )  # fmt: skip
    print_rows([row], "title")
    assert_text(capsys.readouterr().out, text, 2)


@every_text
def test_beside_the_paper(capsys, text):
    verdict = judge("ttm", Number(50.0, std=1.0), Number(51.0, std=1.0))
    print_comparison([Comparison(text, text, "", (0,), (verdict,))], "title")
    assert_text(capsys.readouterr().out, text, 2)


@every_text
def test_logits(capsys, text):
    path = Path(text.replace("\0", ""))
    print_best(np.zeros((1, 2), np.float32), [path], [text, "b"], "clip", 2)
    out = capsys.readouterr().out
    assert_text(out, text, 1)
    assert one_line(str(path)) in out


@every_text
def test_tags(capsys, text):
    Console().print(tag_table({text: {"group_match": Rate(1, 2, 0.5)}}))
    assert_text(capsys.readouterr().out, text, 1)
