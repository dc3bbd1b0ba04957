"""Trees and differences on a terminal: names of arrays come from files, and are text."""

import re
from pathlib import Path

import pytest
from hostile import EVERYTHING, TEXTS

from ttm_jax.plain_text import one_line
from ttm_jax.report.checkpoints.diff import Change, Drift
from ttm_jax.report.checkpoints.printing import print_diff, print_tree
from ttm_jax.report.checkpoints.tree import Leaf


@pytest.mark.parametrize("text", [*TEXTS.values(), EVERYTHING], ids=[*TEXTS, "everything"])
def test_names(capsys, monkeypatch, text):
    monkeypatch.setenv("COLUMNS", "4000")
    name = text.replace("/", "|")  # a slash would make a level of the tree
    leaves = [
        Leaf(f"{name}/{name}", (2, 3), "float32", 24, 1.5, 1),
        Leaf(f"{name}/b", (), "float32", 4, 1.0, 0),
    ]
    print_tree(Path(text.replace("\0", "")), "npz", leaves, 0)
    print_diff([Change(name, name, 0, 1.0, 0.5)], [Drift(name, 0, 0.5)], 0)
    out = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", out)
    assert out.count(one_line(name)) >= 4
    assert "(1 not finite)" in out


def test_names_are_whole_in_a_pipe_and_one_dtype_is_said_once(capsys):
    """Names and numbers of a full-size model."""
    name = "params/img/Transformer/encoderblock/MultiHeadDotProductAttention_0/query/kernel"
    leaf = Leaf(name, (12, 768, 12, 64), "float32", 28_311_552, 92.14, 0)
    print_tree(Path("run"), "orbax", [leaf], 0)
    out = capsys.readouterr().out
    assert "MultiHeadDotProductAttention_0 " in out
    assert out.count("float32") == 1
    assert out.splitlines()[-1] == "1 arrays, 7,077,888 parameters, 28.31 MB, float32"
    print_tree(Path("run"), "orbax", [leaf, Leaf("step", (), "int32", 4, 3.0, 0)], 0)
    out = capsys.readouterr().out
    assert "dtype" in out
    assert out.splitlines()[-1].endswith("float32, int32")
    print_diff([Change(name, name, 0, 1.0, 0.5)], [], 0)
    assert name in capsys.readouterr().out
