"""Which choice gives the published counts: every single one first, pairs only if none does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

Counts = Mapping[str, int]
MOST_PAIRS = 12  # that need new scores


@dataclass(frozen=True)
class Choice:
    """One way of doing something differently."""

    name: str
    changes: tuple[tuple[str, Any], ...]
    """Settings and their values; two choices for the same setting exclude each other."""
    rescores: bool = True
    """Whether the model has to score again; False if the scores at hand are counted otherwise."""


@dataclass(frozen=True)
class Attempt:
    """What one or two choices gave."""

    choices: tuple[Choice, ...]
    counts: Counts | None
    """None if it could not be tried; `note` says why."""
    changed: bool = True
    """Whether any score, or any unit's being right, is different."""
    note: str = ""

    @property
    def name(self) -> str:
        return " + ".join(choice.name for choice in self.choices)

    def gives(self, published: Counts) -> bool:
        return self.counts is not None and all(
            self.counts[name] == count for name, count in published.items()
        )


@dataclass(frozen=True)
class Search:
    """All that was tried, and those attempts that give every published count."""

    attempts: tuple[Attempt, ...]
    found: tuple[Attempt, ...]
    untried: str = ""
    """What was left out, in words; empty if nothing was."""


def explain(
    published: Counts,
    usual: Counts,
    choices: Sequence[Choice],
    attempt: Callable[[tuple[Choice, ...]], Attempt],
    most_pairs: int = MOST_PAIRS,
) -> Search:
    """Find the choices that give all published counts at once.

    Args:
        published: Counts by name.
        usual: The counts without any of the choices.
        choices: What could have been done differently.
        attempt: Counts again with these choices made.
        most_pairs: How many pairs of choices may score again.

    Returns:
        Choices that need no new scores are tried first, and the others only if none of them
        explains the counts. Pairs are tried only if no single choice explains them.
    """
    made: list[Attempt] = []
    for rescores in (False, True):
        made += [attempt((choice,)) for choice in choices if choice.rescores == rescores]
        found = [one for one in made if one.gives(published)]
        if found:
            left = [c.name for c in choices if c.rescores and not rescores]
            untried = f"not tried, because the above gives the counts: {', '.join(left)}"
            return Search(tuple(made), tuple(found), untried if left else "")
    return _explain_by_pairs(published, usual, made, attempt, most_pairs)


def _explain_by_pairs(
    published: Counts,
    usual: Counts,
    singles: Sequence[Attempt],
    attempt: Callable[[tuple[Choice, ...]], Attempt],
    most: int,
) -> Search:
    """Pairs of choices that each changed something.

    First come those that would give the published counts if their effects added up.
    """
    useful = [(one, one.counts) for one in singles if one.changed and one.counts is not None]
    likely: list[tuple[int, tuple[Choice, ...]]] = []
    for (first, a), (second, b) in combinations(useful, 2):
        if not _exclude(first.choices[0], second.choices[0]):
            off = sum(abs(a[n] + b[n] - usual[n] - count) for n, count in published.items())
            likely.append((off, (*first.choices, *second.choices)))
    pairs = [pair for _, pair in sorted(likely, key=lambda entry: entry[0])]
    cheap = [pair for pair in pairs if not all(choice.rescores for choice in pair)]
    dear = [pair for pair in pairs if all(choice.rescores for choice in pair)]
    made = [attempt(pair) for pair in cheap]
    found = [one for one in made if one.gives(published)]
    tried = 0
    while not found and tried < min(most, len(dear)):
        made.append(attempt(dear[tried]))
        found = [one for one in made[-1:] if one.gives(published)]
        tried += 1
    left = len(dear) - tried
    untried = f"{left} of {len(pairs)} pairs of choices were not tried" if left else ""
    return Search((*singles, *made), tuple(found), untried)


def _exclude(first: Choice, second: Choice) -> bool:
    return bool({name for name, _ in first.changes} & {name for name, _ in second.changes})
