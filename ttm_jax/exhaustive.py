"""The best and the second-best matching of small groups, by trying all of them.

The benchmarks list the true pairs on the diagonal, so whatever depends on the order of images and
captions can leak the labels. Floating-point sums do depend on it, in their last digit. Here the
result is a function of the numbers alone, to the last bit:

- the scores of a matching are added in sorted order, so its total does not depend on their places;
- two totals that differ by no more than rounding explains (of the scores to their own type, float32
  or float64, and of the sums) are a tie. So 0.9 + 0.1 ties with 0.5 + 0.5, whatever its last digit;
- a matching that wins in every row by itself needs no sum: it is the best, however close others
  come. Hence GroupMatch is never below GroupScore, and comparison alone decides a 1 x k group.
"""

import itertools
import math
from collections.abc import Iterator
from functools import cache, reduce
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int32

from ttm_jax.over_groups import in_numpy, over_groups

# Above this many matchings a group goes to an assignment solver (`assignment.py`).
MOST_MATCHINGS = 1000
# Up to this many (4 x 4) the search may be compiled: every matching is written out.
_MOST_COMPILED = 24


def count_matchings(images: int, texts: int) -> int:
    """The number of one-to-one matchings of the smaller side into the larger."""
    return math.perm(max(images, texts), min(images, texts))


@cache
def injective_matchings(images: int, texts: int) -> Int32[np.ndarray, "matching image"]:
    """All one-to-one matchings of `images` into `texts` captions (images <= texts)."""
    matchings = np.array(list(itertools.permutations(range(texts), images)), np.int32)
    matchings.flags.writeable = False  # it is shared through the cache
    return matchings


def rounding_of(dtype: np.dtype, images: int) -> float:
    """How far off a total of scores can be, as a share of the sum of their sizes.

    Each score is known to half a unit in the last place of its type; then `images - 1` additions
    in float64 follow, and one subtraction of totals.
    """
    return float(np.finfo(dtype).eps) / 2 + 2 * (images - 1) * 2.0**-53


def match_exhaustively(
    scores: Float[np.ndarray, "group image text"],
) -> tuple[
    Int32[np.ndarray, "group image"], Float64[np.ndarray, " group"], Bool[np.ndarray, " group"]
]:
    """Best matching, margin over the second best, and whether the best is unique (images <= texts).

    A group with only one possible matching has an infinite margin.
    """
    matchings = injective_matchings(*scores.shape[1:])
    search = over_groups if len(matchings) <= _MOST_COMPILED else in_numpy
    index, margin, in_doubt = search(_search, scores)
    close = np.flatnonzero(in_doubt)
    if close.size:
        index, margin = index.copy(), margin.copy()  # what JAX returns may not be written to
        index[close], margin[close] = in_numpy(_look_closer, scores[close])
    return np.take(matchings, index, axis=0), margin, margin > 0


def _search(xp: Any, scores: Any) -> tuple[Any, Any, Any]:
    """Index and margin of the best matching, and whether rounding could make them wrong."""
    images, texts = scores.shape[:2]
    share = rounding_of(scores.dtype, images)
    # float64 adds a few float32 numbers of like size without rounding, so they need no sorting
    exact = scores.dtype == np.float32 and images > 2
    scores = scores.astype(xp.float64)
    index, best, second = _best_two(xp, scores, in_order=not exact)
    sizes = [xp.abs(scores[i, t]) for i in range(images) for t in range(texts)]
    largest = reduce(xp.maximum, sizes)
    # Two totals have sizes of at most m times the largest score each; twice that, to be sure.
    doubt = 4 * images * share * largest
    if exact:
        # All scores are multiples of 2**-24 times the smallest, and float64 has 53 bits for a sum.
        smallest = reduce(xp.minimum, (xp.where(size == 0, math.inf, size) for size in sizes))
        doubt = xp.where(images * largest <= 2.0**29 * smallest, doubt, math.inf)
    return index, best - second, best - second <= doubt


def _look_closer(xp: Any, scores: Any) -> tuple[Any, Any]:
    """Index and margin where the second best is close: margin 0 if it is a tie."""
    images = scores.shape[0]
    share = rounding_of(scores.dtype, images)
    scores = scores.astype(xp.float64)
    index, best, second = _best_two(xp, scores)
    sizes = list(_totals(xp, xp.abs(scores)))
    best_size = sum(xp.where(index == number, size, 0.0) for number, size in enumerate(sizes))
    tied = xp.zeros_like(best, bool)
    for number, total in enumerate(_totals(xp, scores)):
        reached = best - total <= share * (best_size + sizes[number])
        tied = tied | (reached & (index != number))
    margin = xp.where(tied, 0.0, best - second)
    # The row winners, where each row has one and no two rows have the same. Measured from them all
    # other scores are negative, so that no sum cancels.
    top = scores.max(1)
    wins = scores == top[:, None]
    settled = (wins.sum(1) == 1).all(0) & (wins.sum(0) <= 1).all(0)
    winners, first, runner_up = _best_two(xp, scores - top[:, None])
    return xp.where(settled, winners, index), xp.where(settled, first - runner_up, margin)


def _best_two(xp: Any, scores: Any, in_order: bool = True) -> tuple[Any, Any, Any]:
    """Index and total of the best matching, total of the second; `scores[image, text, ...]`."""
    best = second = xp.full_like(scores[0, 0], -math.inf)
    index = xp.zeros_like(best, xp.int32)
    for number, total in enumerate(_totals(xp, scores, in_order)):
        index = xp.where(total > best, xp.int32(number), index)
        second = xp.maximum(second, xp.minimum(total, best))
        best = xp.maximum(best, total)
    return index, best, second


def _totals(xp: Any, scores: Any, in_order: bool = True) -> Iterator[Any]:
    """The total of every matching, added in ascending order (of two, the order does not matter)."""
    for matching in injective_matchings(scores.shape[0], scores.shape[1]).tolist():
        ordered = [scores[image, text] for image, text in enumerate(matching)]
        if in_order and len(ordered) > 2:
            for last in range(len(ordered) - 1, 0, -1):
                for i in range(last):
                    low, high = ordered[i], ordered[i + 1]
                    ordered[i], ordered[i + 1] = xp.minimum(low, high), xp.maximum(low, high)
        yield sum(ordered[1:], start=ordered[0])
