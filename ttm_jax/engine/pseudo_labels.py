"""From scores to pseudo-labels: the matching that a model induces, and which part to train on.

A unit is what can be selected: a group, or one pair of a global assignment. Ground truth is used
only for `right` (for reports) and by the oracle.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int32

from ttm_jax.config import Matching, TauUnit
from ttm_jax.data.groups import Block
from ttm_jax.errors import InputError
from ttm_jax.matching.large.pair_scores import PairScores
from ttm_jax.matching.match import (
    global_matching,
    groups_right,
    match_global,
    match_groups,
    pairs_right,
)
from ttm_jax.matching.thresholds import select, select_global, tau_for_coverage
from ttm_jax.training.task import Scores


@dataclass(frozen=True, eq=False)
class Induced:
    """The matching and the confidence of each unit, induced by the scores of one block.

    `confidence` is the margin of a group, or the similarity of a pair. `unique` is False where
    another matching is equally good: such a unit is never selected.
    """

    matching: Int32[np.ndarray, "group image"]
    confidence: Float[np.ndarray, "unit"]
    unique: Bool[np.ndarray, "unit"]


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """The selection of one iteration over all blocks; `right` is None if the truth is unknown."""

    tau: float
    induced: tuple[Induced, ...]
    selected: tuple[np.ndarray, ...]  # bool [unit], per block
    right: tuple[np.ndarray, ...] | None  # likewise

    @property
    def rows(self) -> Int32[np.ndarray, "n"]:
        """Positions of the selected units, counted across the blocks."""
        return np.flatnonzero(np.concatenate(self.selected)).astype(np.int32)

    @property
    def precision(self) -> float | None:
        """Fraction of the selected units that are correct."""
        if self.right is None or not len(self.rows):
            return None
        return float(np.concatenate(self.right)[self.rows].mean())

    @property
    def matchings(self) -> tuple[np.ndarray, ...]:
        return tuple(block.matching for block in self.induced)


def induce(scores: Scores, kind: Matching) -> tuple[Induced, ...]:
    """The best matching of every group, or of the single big group, with its confidence."""
    if kind == "global":
        if len(scores) != 1 or len(scores[0]) != 1:
            raise InputError("global matching needs a single group: call dataset.ungrouped() first")
        whole = scores[0]
        if isinstance(whole, PairScores):
            found = global_matching(whole)
        else:
            found = match_global(whole[0])
        return (Induced(found.matching[None], found.similarity, found.unique),)
    induced = []
    for block in scores:
        best = match_groups(block)
        induced.append(Induced(best.matching, best.margin, best.unique))
    return tuple(induced)


def first_threshold(induced: tuple[Induced, ...], unit: TauUnit, coverage: float) -> float:
    """tau_1 without labels: the threshold that selects this fraction of the units."""
    if unit == "fraction":
        return 1.0 - coverage
    confidence = np.concatenate([block.confidence for block in induced])
    unique = np.concatenate([block.unique for block in induced])
    return float(tau_for_coverage(confidence, unique, coverage))


def right_units(
    blocks: tuple[Block, ...], induced: tuple[Induced, ...], kind: Matching
) -> tuple[np.ndarray, ...] | None:
    """Which units are matched correctly; a tie never is."""
    if any(block.truth is None for block in blocks):
        return None
    result = []
    for block, found in zip(blocks, induced, strict=True):
        assert block.truth is not None  # checked above
        if kind == "global":
            result.append(pairs_right(found.matching[0], found.unique, block.truth[0]))
        else:
            result.append(groups_right(found.matching, found.unique, block.truth))
    return tuple(result)


def choose(
    blocks: tuple[Block, ...],
    induced: tuple[Induced, ...],
    tau: float,
    *,
    kind: Matching,
    unit: TauUnit,
    oracle: bool = False,
) -> PseudoLabels:
    """Select the confident units (or, for the oracle, the correct ones)."""
    right = right_units(blocks, induced, kind)
    if oracle:
        if right is None:
            raise InputError("the oracle needs the truth of every group, but this data has none")
        return PseudoLabels(tau, induced, right, right)
    confidence = np.concatenate([block.confidence for block in induced])
    unique = np.concatenate([block.unique for block in induced])
    if unit == "fraction":
        chosen = select_global(confidence, unique, tau)
    else:
        chosen = select(confidence, unique, tau)
    ends = np.cumsum([len(block.confidence) for block in induced])[:-1]
    return PseudoLabels(tau, induced, tuple(np.split(chosen, ends)), right)
