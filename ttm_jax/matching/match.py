"""Matching: which caption belongs to which image, and with what margin (paper, Sec. 3.1).

Everything runs on the host in float64; `exhaustive.py` and `assignment.py` explain why it is exact.

Ties: the benchmarks list the true pairs on the diagonal, so breaking a tie by index would leak the
labels. A group whose best matching is not unique therefore has margin 0 and `unique` false, and it
is never selected, whatever tau. The same holds for single pairs of a global matching.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int32, Integer
from numpy.typing import ArrayLike

from ttm_jax.matching.assignment import assign, match_large_group
from ttm_jax.matching.checks import UNMATCHED, as_group_scores, as_score_matrix
from ttm_jax.matching.exhaustive import MOST_MATCHINGS, count_matchings, match_exhaustively
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.pair_scores import PairScores, pair_scores, too_many
from ttm_jax.matching.large.result import Limits


@dataclass(frozen=True, eq=False)
class GroupMatching:
    """The best matching of every group.

    `matching[g, i]` is the caption of image i (-1 if it has none: more images than captions).
    `margin` is the total score of the best matching minus that of the second best: 0 where the best
    is not unique, infinite where only one matching exists. Where `unique` is false, `matching` is
    one of several equally good matchings and must not be used.
    """

    matching: Int32[np.ndarray, "group image"]
    margin: Float64[np.ndarray, " group"]
    unique: Bool[np.ndarray, " group"]


@dataclass(frozen=True, eq=False)
class GlobalMatching:
    """One assignment of all images to captions, without groups (Eq. 2).

    `similarity[i]` is the score of image i with its caption. `unique[i]` is true if every optimal
    assignment contains this pair; a pair that can be exchanged at no cost must not be used. An
    image without a caption (more images than captions) has matching -1, similarity -inf and unique
    false.
    """

    matching: Int32[np.ndarray, " image"]
    similarity: Float64[np.ndarray, " image"]
    unique: Bool[np.ndarray, " image"]


def match_groups(scores: ArrayLike) -> GroupMatching:
    """The best matching of every group and its margin; `scores[group, image, text]`, any shape."""
    return match_checked_groups(as_group_scores(scores))


def match_checked_groups(array: Float[np.ndarray, "group image text"]) -> GroupMatching:
    """Like `match_groups`, for scores already validated by `as_group_scores`."""
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


def match_global(scores: ArrayLike | Embeddings, limits: Limits | None = None) -> GlobalMatching:
    """The best one-to-one assignment of all images and captions.

    Args:
        scores: `scores[image, text]`; or embeddings. Above 5,000 x 5,000 pairs, the scores of
            embeddings are never in memory at once, and the result is as exact.
        limits: When to stop without a proof, above that size.
    """
    if isinstance(scores, Embeddings):
        given = scores.checked()
        if too_many(*given.shape):
            return global_matching(pair_scores(given, limits=limits))
        scores = given.dense()
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


def global_matching(found: PairScores) -> GlobalMatching:
    """The assignment without what else is kept of its scores."""
    return GlobalMatching(found.matching, found.similarity.astype(np.float64), found.unique)


def groups_right(
    matching: Integer[np.ndarray, "group image"],
    unique: Bool[np.ndarray, " group"],
    truth: Integer[np.ndarray, "group image"],
) -> Bool[np.ndarray, " group"]:
    """Whether the unique best matching of each group is the true one (GroupMatch per group)."""
    right = unique.copy()
    for image in range(
        truth.shape[1]
    ):  # one image at a time: faster than all(axis=1) on short rows
        right &= matching[:, image] == truth[:, image]
    return right


def pairs_right(
    matching: Integer[np.ndarray, " image"],
    unique: Bool[np.ndarray, " image"],
    truth: Integer[np.ndarray, " image"],
) -> Bool[np.ndarray, " image"]:
    """Whether each pair of a global matching is correct and part of every optimal assignment."""
    return (matching == truth) & unique


def _by_image(
    by_text: Int32[np.ndarray, "group text"], images: int
) -> Int32[np.ndarray, "group image"]:
    """Convert the image index of every caption to the caption index of every image."""
    matching = np.full((len(by_text), images), UNMATCHED, np.int32)
    texts = np.arange(by_text.shape[1], dtype=np.int32)
    np.put_along_axis(matching, by_text, np.broadcast_to(texts, by_text.shape), axis=1)
    return matching
