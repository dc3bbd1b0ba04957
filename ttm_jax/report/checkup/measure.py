"""The numbers that the paper counts, unit by unit: which are right, and how clearly.

The margin of a unit is signed: above 0 it is right, below 0 wrong, and 0 is a tie.

- raw (GroupScore): the smallest lead of a true pair over its rivals in its row and column;
- simple_match (GroupMatch): the total of the true matching minus that of the best other one;
- global_match, whose unit is an image: the best assignment with its true pair minus the best
  without it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, Int32
from scipy.optimize import linear_sum_assignment

from ttm_jax.matching.exhaustive import injective_matchings, rounding_of
from ttm_jax.matching.match import match_groups
from ttm_jax.matching.metrics import evaluate, evaluate_global

Measure = Literal["raw", "simple_match", "global_match"]
Ties = Literal["wrong", "right"]


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of a model on a benchmark whose groups have at most as many images as captions."""

    groups: Float[np.ndarray, "group image text"]
    truth: Int32[np.ndarray, "group image"]
    whole: Float[np.ndarray, "all_images all_texts"] | None = None
    """All images against all captions, in the order of the groups; None if nobody asked."""
    ties: Ties = "wrong"
    """How a tie counts. "right" compares with >= and leaves an assignment to scipy, which breaks
    ties by position."""

    @property
    def whole_truth(self) -> Int32[np.ndarray, " all_images"]:
        start = np.arange(len(self.truth), dtype=np.int32)[:, None] * self.groups.shape[2]
        return (self.truth + start).reshape(-1)


def right(scored: Scored, measure: Measure) -> Bool[np.ndarray, " unit"]:
    """Whether each group, or each image of a global assignment, is right."""
    if measure == "global_match":
        return _assigned_right(scored)
    if scored.ties == "wrong":
        name = {"raw": "group_score", "simple_match": "group_match"}[measure]
        return evaluate(scored.groups, scored.truth).metrics[name].right.astype(bool)
    if measure == "raw":
        return margins(scored, measure) >= 0
    found = match_groups(scored.groups)
    best = _totals(scored.groups, found.matching)
    own = _totals(scored.groups, scored.truth)
    size = _totals(np.abs(scored.groups), found.matching)
    size = size + _totals(np.abs(scored.groups), scored.truth)
    tied = best - own <= rounding_of(scored.groups.dtype, scored.truth.shape[1]) * size
    return np.where(found.unique, (found.matching == scored.truth).all(axis=1), tied)


def margins(scored: Scored, measure: Measure) -> Float64[np.ndarray, " group"]:
    """The margin of every group; `margin_of` for the images of an assignment."""
    scores, truth = scored.groups.astype(np.float64), scored.truth
    if measure == "simple_match":
        every = injective_matchings(scores.shape[1], scores.shape[2])
        totals = np.stack([_totals(scores, np.broadcast_to(m, truth.shape)) for m in every], axis=1)
        is_true = (every[None] == truth[:, None]).all(axis=2)  # [group, matching]
        return totals[is_true] - np.where(is_true, -np.inf, totals).max(axis=1)
    own = np.take_along_axis(scores, truth[:, :, None], axis=2)[:, :, 0]  # [group, image]
    rivals = scores.copy()
    np.put_along_axis(rivals, truth[:, :, None], -np.inf, axis=2)
    lead = (own - rivals.max(axis=2)).min(axis=1)
    if scores.shape[1] == scores.shape[2]:
        by_caption = np.take_along_axis(rivals.max(axis=1), truth, axis=1)
        lead = np.minimum(lead, (own - by_caption).min(axis=1))
    return lead


def margin_of(scored: Scored, measure: Measure, unit: int) -> float:
    """The margin of one unit."""
    if measure != "global_match":
        part = Scored(scored.groups[unit : unit + 1], scored.truth[unit : unit + 1])
        return float(margins(part, measure)[0])
    scores, column = _whole(scored).astype(np.float64), scored.whole_truth[unit]
    others = np.delete(np.delete(scores, unit, axis=0), column, axis=1)
    with_pair = scores[unit, column] + (_best_total(others) if others.size else 0.0)
    without = scores.copy()
    # Lower than any exchange could make up for.
    without[unit, column] = scores.min() - 2 * len(scores) * (np.ptp(scores) + 1)
    return float(with_pair - _best_total(without))


def _assigned_right(scored: Scored) -> Bool[np.ndarray, " image"]:
    whole, truth = _whole(scored), scored.whole_truth
    if scored.ties == "right":
        return linear_sum_assignment(whole, maximize=True)[1] == truth
    found = evaluate_global(whole, truth).right
    assert found is not None  # the truth is known
    return found


def _whole(scored: Scored) -> Float[np.ndarray, "image text"]:
    if scored.whole is None:
        raise ValueError("these scores have no matrix of all images and captions")
    return scored.whole


def _totals(
    scores: Float[np.ndarray, "group image text"], matching: Int32[np.ndarray, "group image"]
) -> Float64[np.ndarray, " group"]:
    picked = np.take_along_axis(scores.astype(np.float64), matching[:, :, None], axis=2)
    return picked[:, :, 0].sum(axis=1)


def _best_total(scores: Float64[np.ndarray, "image text"]) -> float:
    return float(scores[linear_sum_assignment(scores, maximize=True)].sum())
