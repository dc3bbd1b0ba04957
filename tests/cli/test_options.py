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
