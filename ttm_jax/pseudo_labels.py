"""From scores to pseudo-labels: the matching a model induces, and how much of it to trust.

A unit is what is selected or not: a group, or one pair of a global assignment. Labels enter only
through `right` (for reports) and through the oracle, which says so.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int32

from ttm_jax import matching
from ttm_jax.config import Matching, TauUnit
from ttm_jax.data.groups import Block
from ttm_jax.errors import InputError


@dataclass(frozen=True, eq=False)
class Induced:
    """What one block's scores say: a caption for each image, and the confidence of each unit.

    `confidence` is the margin of a group, or the similarity of a pair. `unique` is False where
    another matching is as good: such a unit is never selected.
    """

    matching: Int32[np.ndarray, "group image"]
    confidence: Float[np.ndarray, "unit"]
    unique: Bool[np.ndarray, "unit"]


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """One iteration's choice over all blocks; `right` is None where the truth is unknown."""

    tau: float
    induced: tuple[Induced, ...]
    selected: tuple[np.ndarray, ...]  # bool [unit] of each block
    right: tuple[np.ndarray, ...] | None  # likewise

    @property
    def rows(self) -> Int32[np.ndarray, "n"]:
        """Positions of the selected units, counted through the blocks."""
        return np.flatnonzero(np.concatenate(self.selected)).astype(np.int32)

    @property
    def precision(self) -> float | None:
        """Share of the selected units that are right."""
        if self.right is None or not len(self.rows):
            return None
        return float(np.concatenate(self.right)[self.rows].mean())

    @property
    def matchings(self) -> tuple[np.ndarray, ...]:
        return tuple(block.matching for block in self.induced)


def induce(scores: tuple[np.ndarray, ...], kind: Matching) -> tuple[Induced, ...]:
    """The best matching of every group, or of the one big group, with its confidence."""
    if kind == "global":
        if len(scores) != 1 or len(scores[0]) != 1:
            raise InputError("global matching takes one group: call dataset.ungrouped() first")
        found = matching.match_global(scores[0][0])
        return (Induced(found.matching[None], found.similarity, found.unique),)
    induced = []
    for block in scores:
        best = matching.match_groups(block)
        induced.append(Induced(best.matching, best.margin, best.unique))
    return tuple(induced)


def first_threshold(induced: tuple[Induced, ...], unit: TauUnit, coverage: float) -> float:
    """tau_1 without labels: the threshold that selects this share of the units."""
    if unit == "fraction":
        return 1.0 - coverage
    confidence = np.concatenate([block.confidence for block in induced])
    unique = np.concatenate([block.unique for block in induced])
    return float(matching.tau_for_coverage(confidence, unique, coverage))


def is_right(
    blocks: tuple[Block, ...], induced: tuple[Induced, ...], kind: Matching
) -> tuple[np.ndarray, ...] | None:
    """Which units are matched as the truth says; a tie is never right."""
    if any(block.truth is None for block in blocks):
        return None
    result = []
    for block, found in zip(blocks, induced, strict=True):
        same = found.matching == block.truth
        result.append((same[0] if kind == "global" else same.all(axis=1)) & found.unique)
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
    """Keep the units that are sure enough (or, for the oracle, right)."""
    right = is_right(blocks, induced, kind)
    if oracle:
        if right is None:
            raise InputError("the oracle needs the truth of every group, and this data has none")
        return PseudoLabels(tau, induced, right, right)
    confidence = np.concatenate([block.confidence for block in induced])
    unique = np.concatenate([block.unique for block in induced])
    if unit == "fraction":
        chosen = matching.select_global(confidence, unique, tau)
    else:
        chosen = matching.select(confidence, unique, tau)
    ends = np.cumsum([len(block.confidence) for block in induced])[:-1]
    return PseudoLabels(tau, induced, tuple(np.split(chosen, ends)), right)
