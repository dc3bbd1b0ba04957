"""Checks of flags that several commands share: one clear line before anything is loaded."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from ttm_jax.errors import InputError


def check_seeds(seeds: Sequence[int]) -> None:
    """Seeds name folders, so they are whole numbers from 0, and no two are the same."""
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError(
            f"--seeds {' '.join(map(str, seeds))}: expected different whole numbers from 0"
        )


def check_at_least(flag: str, value: float | None, least: int = 1) -> None:
    """None means that the flag was not given."""
    if value is not None and value < least:
        raise InputError(f"{flag} is {value}; expected at least {least}")


def check_names(flag: str, names: Sequence[str], known: Collection[str]) -> None:
    """Names of something that there is a list of."""
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"expected some of {', '.join(known)}"
            raise InputError(f"{flag}: there is no {name!r}; {hint}")
