"""The best and second-best matching of small groups, by enumerating all matchings.

The benchmarks list the true pairs on the diagonal, so anything that depends on the order of images
and captions can leak the labels. Floating-point sums do depend on it, in their last digit. Here the
result depends only on the values, to the last bit:

- the scores of a matching are added in sorted order, so its total does not depend on their places;
- two totals whose difference can be explained by rounding (of the scores to their own type, float32
  or float64, and of the sums) are a tie. So 0.9 + 0.1 ties with 0.5 + 0.5, whatever its last digit;
- a matching that wins every row needs no sum: it is the best, however close the others are. Hence
  GroupMatch is never below GroupScore, and a 1 x k group is decided by comparison alone.
"""

import itertools
import math
from collections.abc import Iterator
from functools import cache, reduce
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int32

from ttm_jax.matching.over_groups import over_groups

# Groups with more matchings than this are solved by an assignment solver (`assignment.py`).
MOST_MATCHINGS = 1000


def count_matchings(images: int, texts: int) -> int:
    """The number of one-to-one matchings of the smaller side into the larger."""
    return math.perm(max(images, texts), min(images, texts))


@cache
def injective_matchings(images: int, texts: int) -> Int32[np.ndarray, "matching image"]:
    """All one-to-one matchings of `images` into `texts` captions (images <= texts)."""
    matchings = np.array(list(itertools.permutations(range(texts), images)), np.int32)
    matchings.flags.writeable = False  # shared through the cache
    return matchings


def rounding_of(dtype: np.dtype, images: int) -> float:
    """Maximum rounding error of a total of scores, relative to the sum of their magnitudes.

    Each score is known to half a unit in the last place of its type; `images - 1` float64 additions
    and one subtraction of totals follow.
    """
    return float(np.finfo(dtype).eps) / 2 + 2 * (images - 1) * 2.0**-53


def match_exhaustively(
    scores: Float[np.ndarray, "group image text"],
) -> tuple[
    Int32[np.ndarray, "group image"], Float64[np.ndarray, " group"], Bool[np.ndarray, " group"]
]:
    """Return the best matching, its margin over the second best, and whether the best is unique.

    Requires images <= texts. A group with only one possible matching has an infinite margin.
    """
    matchings = injective_matchings(*scores.shape[1:])
    index, margin, in_doubt = over_groups(_search, scores)
    close = np.flatnonzero(in_doubt)
    if close.size:
        index[close], margin[close] = over_groups(_look_closer, scores[close])
    return np.take(matchings, index, axis=0), margin, margin > 0


def _search(scores: Any) -> tuple[Any, Any, Any]:
    """Index and margin of the best matching, and whether rounding could affect them."""
    images, texts = scores.shape[:2]
    share = rounding_of(scores.dtype, images)
    # float64 adds a few float32 values of similar size without rounding, so no sorting is needed
    exact = scores.dtype == np.float32 and images > 2
    scores = scores.astype(np.float64)
    index, best, second = _best_two(scores, in_order=not exact)
    sizes = [np.abs(scores[i, t]) for i in range(images) for t in range(texts)]
    largest = reduce(np.maximum, sizes)
    # Each of the two totals is at most m times the largest score; double that, to be safe.
    doubt = 4 * images * share * largest
    if exact:
        # All scores are multiples of 2**-24 times the smallest, and float64 has 53 bits for a sum.
        smallest = reduce(np.minimum, (np.where(size == 0, math.inf, size) for size in sizes))
        doubt = np.where(images * largest <= 2.0**29 * smallest, doubt, math.inf)
    return index, best - second, best - second <= doubt


def _look_closer(scores: Any) -> tuple[Any, Any]:
    """Index and margin where the second best is close; the margin of a tie is 0."""
    images = scores.shape[0]
    share = rounding_of(scores.dtype, images)
    scores = scores.astype(np.float64)
    index, best, second = _best_two(scores)
    sizes = list(_totals(np.abs(scores)))
    best_size = sum(np.where(index == number, size, 0.0) for number, size in enumerate(sizes))
    tied = np.zeros_like(best, bool)
    for number, total in enumerate(_totals(scores)):
        reached = best - total <= share * (best_size + sizes[number])
        tied = tied | (reached & (index != number))
    margin = np.where(tied, 0.0, best - second)
    # The row winners, where each row has one and no two rows share one. Relative to them all other
    # scores are negative, so that no sum cancels.
    top = scores.max(1)
    wins = scores == top[:, None]
    settled = (wins.sum(1) == 1).all(0) & (wins.sum(0) <= 1).all(0)
    winners, first, runner_up = _best_two(scores - top[:, None])
    return np.where(settled, winners, index), np.where(settled, first - runner_up, margin)


def _best_two(scores: Any, in_order: bool = True) -> tuple[Any, Any, Any]:
    """Index and total of the best matching, total of the second; `scores[image, text, ...]`."""
    best = second = np.full_like(scores[0, 0], -math.inf)
    index = np.zeros_like(best, np.int32)
    for number, total in enumerate(_totals(scores, in_order)):
        index = np.where(total > best, np.int32(number), index)
        second = np.maximum(second, np.minimum(total, best))
        best = np.maximum(best, total)
    return index, best, second


def _totals(scores: Any, in_order: bool = True) -> Iterator[Any]:
    """The total of each matching, added in ascending order (two terms need no order)."""
    for matching in injective_matchings(scores.shape[0], scores.shape[1]).tolist():
        ordered = [scores[image, text] for image, text in enumerate(matching)]
        if in_order and len(ordered) > 2:
            for last in range(len(ordered) - 1, 0, -1):
                for i in range(last):
                    low, high = ordered[i], ordered[i + 1]
                    ordered[i], ordered[i + 1] = np.minimum(low, high), np.maximum(low, high)
        yield sum(ordered[1:], start=ordered[0])
