"""A row of the check-up: the published counts of a model on a benchmark, and what was found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ttm_jax.report.checkup.flips import Flip
from ttm_jax.report.checkup.measure import Measure
from ttm_jax.report.checkup.search import Attempt, Search


@dataclass(frozen=True)
class Published:
    """A count of the paper."""

    table: str
    number: Literal["raw", "simple_match"]
    """The column of the table."""
    measure: Measure
    """What is counted; the raw column repeats GroupScore where there are no groups."""
    count: int
    of: int

    @property
    def unit(self) -> str:
        return "pair" if self.measure == "global_match" else "group"

    def verdict(self, here: int | None) -> str:
        """`equal`, or `off by +2 groups`."""
        if here is None:
            return "not scored"
        off = here - self.count
        if not off:
            return "equal"
        return f"off by {off:+d} {self.unit}{'' if abs(off) == 1 else 's'}"


@dataclass(frozen=True)
class Row:
    """What was found for a model on a benchmark."""

    dataset: str
    model: str
    published: tuple[Published, ...]
    here: Mapping[str, int] = field(default_factory=dict)
    """Counts by measure; empty if nothing was scored."""
    missing: tuple[str, ...] = ()
    """Why nothing was scored, one line each."""
    notes: tuple[str, ...] = ()
    search: Search | None = None
    """None if all counts are equal."""
    flips: Mapping[str, tuple[Flip, ...]] = field(default_factory=dict)
    """By the name of each attempt that explains the counts."""
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What was scored, and with what: checksums and versions."""

    @property
    def off(self) -> tuple[Published, ...]:
        """The counts that differ."""
        if not self.here:
            return ()
        return tuple(p for p in self.published if self.here[p.measure] != p.count)

    @property
    def equal(self) -> int:
        """How many counts are the published ones."""
        return len(self.published) - len(self.off) if self.here else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "model": self.model,
            "numbers": [self._number(published) for published in self.published],
            "missing": list(self.missing),
            "notes": list(self.notes),
            "explained_by": [a.name for a in self.search.found] if self.search else [],
            "tried": [self._attempt(a) for a in self.search.attempts] if self.search else [],
            "untried": self.search.untried if self.search else "",
            "flips": {
                name: [flip.as_json() for flip in flips] for name, flips in self.flips.items()
            },
            "identity": dict(self.identity),
        }

    def _number(self, published: Published) -> dict[str, Any]:
        here = self.here.get(published.measure)
        return {
            "table": published.table,
            "number": published.number,
            "paper": published.count,
            "of": published.of,
            "here": here,
            "verdict": published.verdict(here),
        }

    def _attempt(self, attempt: Attempt) -> dict[str, Any]:
        counts = None if attempt.counts is None else dict(attempt.counts)
        choices = [choice.name for choice in attempt.choices]
        changed = attempt.changed and attempt.counts is not None
        return {"choices": choices, "counts": counts, "changed": changed, "note": attempt.note}
