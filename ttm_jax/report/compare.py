"""Two runs on the same data: do they differ, on which groups, and could it be chance?"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from ttm_jax.errors import InputError
from ttm_jax.plain_text import one_line
from ttm_jax.report.decisions import Decisions, decisions, unit_names
from ttm_jax.report.run_data import Experiment, SeedRun


@dataclass(frozen=True)
class PairedTest:
    """Units that only one of two models gets right, and McNemar's exact test on them.

    `p` is the probability of a split at least as uneven if both models were equally good.
    """

    metric: str
    units: int
    a: int
    b: int
    only_a: int
    only_b: int
    p: float


@dataclass(frozen=True)
class Difference:
    """A unit that one model gets right and the other wrong, with the margins of both."""

    name: str
    right_in: str
    margin_a: float
    margin_b: float
    matching_a: tuple[int, ...]
    matching_b: tuple[int, ...]
    captions: tuple[str, ...]


@dataclass(frozen=True)
class RunComparison:
    """One seed of each. Without known truth there are no tests, and `changed` is all there is."""

    seeds: tuple[int, int]
    iterations: tuple[int, int]
    tests: tuple[PairedTest, ...]
    differences: tuple[Difference, ...]
    changed: int
    """Units whose matching is not the same."""
    units: int
    notes: tuple[str, ...] = ()
    """What could not be read because a run is still going."""

    def as_json(self) -> dict[str, Any]:
        """JSON has no infinity: the similarity of an image that was left over is null."""
        rows = [asdict(row) for row in self.differences]
        for row in rows:
            for name in ("margin_a", "margin_b"):
                row[name] = row[name] if math.isfinite(row[name]) else None
        return {**asdict(self), "differences": rows}


def mcnemar(metric: str, a: Bool[np.ndarray, " unit"], b: Bool[np.ndarray, " unit"]) -> PairedTest:
    """Exact and two-sided: of the units on which they differ, half should fall to each side."""
    from scipy.stats import binomtest

    only_a, only_b = int((a & ~b).sum()), int((~a & b).sum())
    p = binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    return PairedTest(metric, len(a), int(a.sum()), int(b.sum()), only_a, only_b, float(p))


def compare_experiments(
    a: Experiment, b: Experiment, iterations: tuple[int, int] | None = None
) -> list[RunComparison]:
    """Seed by seed: the same seeds of both, or if they share none, in the order they have."""
    common = [seed for seed in a.seeds if seed in b.seeds]
    if common:
        pairs = [(_of(a, seed), _of(b, seed)) for seed in common]
    else:
        pairs = list(zip(a.runs, b.runs, strict=False))
    return [compare_runs(first, second, iterations) for first, second in pairs]


def compare_runs(
    a: SeedRun, b: SeedRun, iterations: tuple[int, int] | None = None
) -> RunComparison:
    """The models after these iterations (default: the last of each)."""
    names = _common_names(a, b)
    at = (a.last, b.last) if iterations is None else iterations
    for run, iteration in zip((a, b), at, strict=True):
        if not 0 <= iteration <= run.last:
            raise InputError(
                one_line(f"{run.path} has iterations 0 to {run.last}, not {iteration}")
            )
    old, new = decisions(a, at[0]), decisions(b, at[1])
    tests = []
    for metric, x, y in (
        (a.main_metric, old.right, new.right),
        ("group_score", old.scored, new.scored),
    ):
        if x is not None and y is not None:
            tests.append(mcnemar(metric, x, y))
    rows_a, rows_b = _matchings(old, a), _matchings(new, b)
    changed = sum(x != y for x, y in zip(rows_a, rows_b, strict=True))
    differences: tuple[Difference, ...] = ()
    if old.right is not None and new.right is not None:
        texts = _captions(a, rows_a, rows_b)
        differences = tuple(
            Difference(
                names[unit], "A" if old.right[unit] else "B",
                float(old.confidence[unit]), float(new.confidence[unit]),
                rows_a[unit], rows_b[unit], texts[unit],
            )
            for unit in np.flatnonzero(old.right != new.right)
        )  # fmt: skip
    notes = tuple(dict.fromkeys(a.notes + b.notes))
    return RunComparison(
        (a.seed, b.seed), at, tuple(tests), differences, changed, len(names), notes
    )


def _of(experiment: Experiment, seed: int) -> SeedRun:
    return next(run for run in experiment.runs if run.seed == seed)


def _common_names(a: SeedRun, b: SeedRun) -> list[str]:
    """The units of both; runs on other data or with another kind of matching are refused."""
    if a.is_global != b.is_global:
        raise InputError(one_line(f"{a.path} and {b.path}: one matches groups, the other globally"))
    old, new = a.identity["dataset"], b.identity["dataset"]
    names = unit_names(a)
    if list(old["shapes"].items()) != list(new["shapes"].items()) or names != unit_names(b):
        raise InputError(
            one_line(
                f"{a.path} and {b.path} are not on the same data: {old['name']} with "
                f"{old['groups']} groups, {new['name']} with {new['groups']}; a paired test needs "
                "the same groups"
            )
        )
    return names


def _matchings(found: Decisions, run: SeedRun) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    for block in found.induced:
        part = block.matching.T if run.is_global else block.matching
        rows += [tuple(row) for row in part.tolist()]
    return rows


def _captions(
    run: SeedRun, rows_a: list[tuple[int, ...]], rows_b: list[tuple[int, ...]]
) -> list[tuple[str, ...]]:
    """The captions of every group; of a global matching, those that A and B chose."""
    pictures = run.pictures
    if pictures is None:
        return [()] * len(rows_a)
    pool = [caption or "" for caption in pictures.captions]
    if not run.is_global:
        return [tuple(pool[c] for c in group.captions) for group in pictures.groups]
    flat = [pool[c] for group in pictures.groups for c in group.captions]
    chosen = zip(rows_a, rows_b, strict=True)
    return [
        tuple(f"{side}: {flat[row[0]]}" for side, row in (("A", a), ("B", b)) if row[0] >= 0)
        for a, b in chosen
    ]
