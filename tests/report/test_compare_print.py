"""Comparisons on a terminal: names and captions are text, whatever they hold."""

import re
import shutil

import numpy as np
import pytest
from hostile import EVERYTHING, TEXTS, poison
from made_runs import CONFIG, RIGHT, WRONG, fate_scores, pictured_dataset, write_fates, write_run

from ttm_jax.plain_text import one_line
from ttm_jax.report.compare import compare_experiments
from ttm_jax.report.compare_print import print_comparisons
from ttm_jax.report.run_data import read_experiments

SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_fates(root / "a", (0,))
    scores = fate_scores()
    scores[2] = np.stack([WRONG, RIGHT, RIGHT, WRONG, RIGHT])
    write_run(root / "b" / "seed_0", pictured_dataset(), scores, CONFIG)
    return root


def shown(root, capsys, text):
    a, b = (read_experiments([root / name])[0] for name in "ab")
    print_comparisons(text, text, compare_experiments(a, b), 0)
    return capsys.readouterr().out


@pytest.mark.parametrize("text", [*TEXTS.values(), EVERYTHING], ids=[*TEXTS, "everything"])
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_hostile_text(pair, tmp_path, capsys, monkeypatch, text, terminal):
    monkeypatch.setenv("COLUMNS", "4000")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    root = shutil.copytree(pair, tmp_path / "runs")
    poison(root, text)
    out = shown(root, capsys, text)
    plain = SGR.sub("", out) if terminal else out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", plain)
    # Rich may recolour what it draws itself; the text comes out letter by letter.
    assert f"A: {one_line(text)}" in plain
    assert one_line(text) + "a red cat" in plain
    assert one_line(text) + "to-wrong" in plain
    if terminal:
        assert "\x1b[31m" not in out
