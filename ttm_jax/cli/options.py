"""How commands read their arguments, and how `--help` shows them: every default once."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import tyro

T = TypeVar("T")

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
    """Commands in a docstring, indented: tyro fills paragraphs, but keeps indented lines."""
    return about and re.sub(r"^(?=(python -m|ttm) )", "    ", about, flags=re.MULTILINE)


def given(value: T | None, default: T) -> T:
    """What the user gave, or the default. Unlike `value or default`, 0 is a value."""
    return default if value is None else value
