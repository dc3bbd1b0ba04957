"""The pairs that `ttm adapt` prints: nothing is cut, whatever the width."""

import sys

import pytest
from rich.console import Console

from ttm_jax.report import matchings_table
from ttm_jax.report.matchings_table import print_answer

CAPTIONS = [f"caption number {n}, with so many words in it that it needs a line" for n in range(4)]
NAMES = ["cat.png", "Bridge_by_Sander_Klootwijk.jpg", "x" * 50 + ".jpg", "a b.png"]


def rows() -> list[dict]:
    return [
        {
            "image": name, "caption": caption, "confidence": 0.5 + 0.1 * n, "unique": True,
            "runner_up": CAPTIONS[n - 1], "changed": n % 2 == 1,
        }
        for n, (name, caption) in enumerate(zip(NAMES, CAPTIONS, strict=True))
    ]  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 160])
def test_on_a_terminal(capsys, monkeypatch, width):
    def terminal(_wide: int) -> Console:
        return Console(file=sys.stdout, width=width, force_terminal=True, color_system=None)

    monkeypatch.setattr(matchings_table, "screen", terminal)
    print_answer(rows())
    shown = capsys.readouterr().out.partition("* changed by")[0]
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in shown
    assert any(line.startswith("* Bridge_by_Sander_Klootwijk.jpg ") for line in lines)
    for word in {word for text in CAPTIONS for word in text.split()} - {f"{n}," for n in range(4)}:
        assert shown.split().count(word) >= 8  # whole, in both columns of all rows
    assert shown.count("x") == 50


def test_one_line_per_image_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_answer(rows())
    lines = capsys.readouterr().out.splitlines()
    for name, caption in zip(NAMES, CAPTIONS, strict=True):
        assert sum(name in line and caption in line for line in lines) == 1


def test_the_line_below_says_what_the_table_has(capsys):
    print_answer(rows())
    mark = "* changed by Test-Time Matching; conf.: share among the captions of the group"
    assert mark in capsys.readouterr().out.splitlines()
    print_answer([{**row, "changed": False} for row in rows()], grouped=False)
    assert "conf.: share among all captions" in capsys.readouterr().out.splitlines()
