"""What `--help` makes of docstrings."""

from dataclasses import dataclass

import pytest

from ttm_jax.cli.options import parse


@dataclass(frozen=True)
class Args:
    size: int = 1
    """How large."""


def test_commands_in_a_docstring_keep_their_lines(capsys):
    about = "What it does.\n\npython -m experiments.x\npython -m experiments.x --small\n"
    with pytest.raises(SystemExit):
        parse(Args, ["--help"], "x", about)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "python -m experiments.x" in lines
    assert "python -m experiments.x --small" in lines


@pytest.mark.parametrize("width", [80, 120])
def test_paragraphs_fit_the_terminal(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    words = [f"word-number-{n}" for n in range(40)]
    about = f"What it does, and {' '.join(words)}.\n\n    ttm x \\\n        --flag a.png b.png\n"
    with pytest.raises(SystemExit):
        parse(Args, ["--help"], "x", about)
    shown = capsys.readouterr().out
    text, _, _ = shown.partition("╭")
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(len, lines)) <= min(width, 100)
    assert [word for word in text.split() if word.startswith("word")] == [
        *words[:-1],
        "word-number-39.",
    ]
    assert [line for line in lines if line.startswith("    ")] == [
        "    ttm x \\", "        --flag a.png b.png",
    ]  # fmt: skip
