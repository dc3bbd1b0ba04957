"""How commands read their arguments, and how `--help` shows them: every default once."""

import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import tyro

T = TypeVar("T")
_WIDEST = 100  # columns of running text
_COMMAND = re.compile(r" *(python -m|ttm) ")

Switch = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
"""A flag without a value: `--quiet`, or `--no-resume` where the default is True."""


def option(metavar: str, default: str = "") -> Any:
    """For `Annotated[X | None, option(...)]`: how a flag whose value may be None is shown."""
    hint = f"(default: {default})" if default else "(optional)"
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint)


def parse(into: Callable[..., T], argv: Sequence[str], prog: str, about: str | None) -> T:
    """Build or call `into` from command-line arguments; `--help` shows `about` and exits."""
    return tyro.cli(
        into,
        prog=prog,
        description=_with_examples(about),
        args=list(argv),
        config=(tyro.conf.FlagCreatePairsOff,),  # --quiet, or --no-resume: one spelling each
    )


def _with_examples(about: str | None) -> str | None:
    """Paragraphs that fit the terminal, and commands as they are.

    tyro breaks no lines here. It joins those that begin with a letter, so all get an indent.
    """
    if about is None:
        return None
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    parts = []
    for part in inspect.cleandoc(about).split("\n\n"):
        lines = part.splitlines()
        if any(_COMMAND.match(line) for line in lines):
            parts.append(textwrap.indent(textwrap.dedent(part), "    "))
        else:
            text = " ".join(lines)
            parts.append(textwrap.fill(
                text, width, initial_indent=" ", subsequent_indent=" ", break_long_words=False,
                break_on_hyphens=False,
            ))  # fmt: skip
    return "\n\n".join(parts)


def given(value: T | None, default: T) -> T:
    """What the user gave, or the default. Unlike `value or default`, 0 is a value."""
    return default if value is None else value
