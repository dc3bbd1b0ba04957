"""Matching: which caption belongs to which image, and how sure that is (paper, Sec. 3.1 to 3.2.1).

Everything runs on the host in float64; `exhaustive.py` and `assignment.py` say how it is exact.

Ties. The benchmarks list the true pairs on the diagonal, so a tie that is broken by index would
give the labels away. Here a group whose best matching is not unique has margin 0 and is marked, and
nothing selects it, whatever tau. The same holds for single pairs of a global matching.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int32, Integer, Real
from numpy.typing import ArrayLike

from ttm_jax.assignment import assign, match_large_group
from ttm_jax.errors import InputError
from ttm_jax.exhaustive import MOST_MATCHINGS, count_matchings, match_exhaustively
from ttm_jax.scores import UNMATCHED, as_group_scores, as_score_matrix


@dataclass(frozen=True, eq=False)
class GroupMatching:
    """The best matching of every group.

    `matching[g, i]` is the caption of image i (-1: more images than captions, and this one is left
    over). `margin` is the total score of the best matching minus that of the second best: 0 where
    the best is not unique, infinite where there is only one. Where `unique` is false, `matching` is
    one of several equals and must not be used.
    """

    matching: Int32[np.ndarray, "group image"]
    margin: Float64[np.ndarray, " group"]
    unique: Bool[np.ndarray, " group"]


@dataclass(frozen=True, eq=False)
class GlobalMatching:
    """One assignment of all images to captions, without groups (Eq. 2).

    `similarity[i]` is the score of the pair of image i. `unique[i]` says that every best assignment
    has this pair; a pair that could be exchanged at no cost must not be used. An image that is left
    over (more images than captions) has matching -1, similarity -inf and is not unique.
    """

    matching: Int32[np.ndarray, " image"]
    similarity: Float64[np.ndarray, " image"]
    unique: Bool[np.ndarray, " image"]


def match_groups(scores: ArrayLike) -> GroupMatching:
    """The best matching of every group and its margin; `scores[group, image, text]`, any shape."""
    return match_checked_groups(as_group_scores(scores))


def match_checked_groups(array: Float[np.ndarray, "group image text"]) -> GroupMatching:
    """As `match_groups`, for scores that `as_group_scores` has seen already."""
    groups, images, texts = array.shape
    if images > texts:  # the paper's "without loss of generality"
        by_text = match_checked_groups(array.transpose(0, 2, 1))
        return GroupMatching(_by_image(by_text.matching, images), by_text.margin, by_text.unique)
    if count_matchings(images, texts) <= MOST_MATCHINGS:
        return GroupMatching(*match_exhaustively(array))
    matching = np.empty((groups, images), np.int32)
    margin = np.empty(groups)
    for group, block in enumerate(array):
        matching[group], margin[group] = match_large_group(block)
    return GroupMatching(matching, margin, margin > 0)


def match_global(scores: ArrayLike) -> GlobalMatching:
    """The best one-to-one assignment of all images and captions; `scores[image, text]`."""
    array = as_score_matrix(scores)
    images, texts = array.shape
    if images > texts:
        by_text, settled = assign(array.T)
        matching = _by_image(by_text[None], images)[0]
        unique = np.zeros(images, bool)
        unique[by_text] = settled
    else:
        matching, unique = assign(array)
    similarity = np.full(images, -np.inf)
    rows = np.flatnonzero(matching != UNMATCHED)
    similarity[rows] = array[rows, matching[rows]]
    return GlobalMatching(matching, similarity, unique)


def select(
    margin: Real[np.ndarray, " group"], unique: Bool[np.ndarray, " group"], tau: float | int
) -> Bool[np.ndarray, " group"]:
    """The groups to train on: a unique best matching with a margin of at least tau (Alg. 1)."""
    return (margin >= _number(tau, "tau")) & unique


def select_oracle(
    matching: GroupMatching, truth: Integer[np.ndarray, "group image"]
) -> Bool[np.ndarray, " group"]:
    """The oracle of Sec. 4.6, which knows the labels: the groups whose matching is right."""
    return is_right(matching, truth)


def is_right(
    matching: GroupMatching, truth: Integer[np.ndarray, "group image"]
) -> Bool[np.ndarray, " group"]:
    """Whether the unique best matching is the true one: GroupMatch, group by group."""
    right = matching.unique.copy()
    for image in range(
        truth.shape[1]
    ):  # image by image: much faster than all(axis=1) on short rows
        right &= matching.matching[:, image] == truth[:, image]
    return right


def select_global(
    similarity: Real[np.ndarray, " image"],
    unique: Bool[np.ndarray, " image"],
    tau: float | int,
) -> Bool[np.ndarray, " image"]:
    """The pairs to train on: the share 1 - tau of all pairs, the most similar first (App. B.1).

    Of n pairs `floor(n (1 - tau) + 1e-10)` are taken, then every pair at or above the last one's
    similarity; none at all if that number is 0. Pairs that are not unique count in n, but are never
    taken, and their similarity has no influence: it depends on the order of the data.
    """
    tau = _number(tau, "tau")
    if not 0 <= tau <= 1:
        raise InputError(
            f"tau is {tau}: for a global matching it is the share left out, from 0 to 1"
        )
    pairs = int(np.isfinite(similarity).sum())
    wanted = math.floor(pairs * (1 - tau) + 1e-10)
    usable = np.sort(similarity[unique])[::-1]
    if wanted == 0 or usable.size == 0:
        return np.zeros(similarity.shape, bool)
    return unique & (similarity >= usable[min(wanted, usable.size) - 1])


def tau_for_coverage(
    margin: Real[np.ndarray, " group"], unique: Bool[np.ndarray, " group"], coverage: float | int
) -> float:
    """The highest tau that selects at least this share of the groups, without using labels.

    The paper starts with 15 to 30 % of the groups (Sec. 4.6). If fewer groups than that have a
    unique matching, tau is 0, which selects all that can be. For a global matching tau is a share
    already: 1 - coverage.
    """
    coverage = _number(coverage, "coverage")
    if not 0 < coverage <= 1:
        raise InputError(f"coverage is {coverage}; expected a share above 0 and at most 1")
    wanted = math.ceil(coverage * len(margin) - 1e-10)
    usable = np.sort(margin[unique])[::-1]
    return float(usable[wanted - 1]) if wanted <= usable.size else 0.0


def _by_image(
    by_text: Int32[np.ndarray, "group text"], images: int
) -> Int32[np.ndarray, "group image"]:
    """Turn the image of every caption into the caption of every image."""
    matching = np.full((len(by_text), images), UNMATCHED, np.int32)
    texts = np.arange(by_text.shape[1], dtype=np.int32)
    np.put_along_axis(matching, by_text, np.broadcast_to(texts, by_text.shape), axis=1)
    return matching


def _number(value: float | int, name: str) -> float:
    if math.isnan(value):
        raise InputError(f"{name} is nan; expected a number")
    return float(value)
