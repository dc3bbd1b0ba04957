"""The best and the second-best matching of small groups, by trying all of them: exactly.

Sums of floating-point numbers depend on their order in the last digit. Left alone, that would break
ties at random and make a margin depend on the order in which a group lists its captions; and since
benchmarks list the true pairs on the diagonal, anything that depends on that order can leak labels.
Two measures make the result a function of the numbers alone:

1. the scores of a matching are added in sorted order, so that its total does not depend on the
   order of images and captions;
2. where best and second best lie closer than rounding can tell, the group is solved again in whole
   numbers, without any rounding. A tie is then a tie, and the smallest true difference counts.
"""

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int32, Shaped

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
    index, margin, doubt = search(_search, scores)
    close = np.flatnonzero(margin <= doubt)
    if close.size:
        index, margin = index.copy(), margin.copy()  # what JAX returns may not be written to
        index[close], margin[close] = _search_in_integers(scores[close].astype(np.float64))
    return np.take(matchings, index, axis=0), margin, margin > 0


def _search(xp: Any, scores: Any) -> tuple[Any, Any, Any]:
    """Index and margin of the best matching of a group, and how far off the margin can be."""
    scores = scores.astype(xp.float64)
    images = scores.shape[0]
    index, best, second = _best_two(xp, scores, -math.inf, _sorted_total)
    # A total of m numbers up to s is off by at most m (m - 1) s u, a difference by twice that; the
    # other factor of 2 is to spare. For m = 1 nothing is added and only exact ties are left.
    doubt = 4 * images * (images - 1) * 2.0**-53 * xp.abs(scores).max((0, 1))
    return index, best - second, doubt


def _search_in_integers(
    scores: Float64[np.ndarray, "group image text"],
) -> tuple[Int32[np.ndarray, " group"], Float64[np.ndarray, " group"]]:
    """Index and margin of the best matching, without rounding until the margin is returned."""
    whole, unit = as_integers(np.ascontiguousarray(np.moveaxis(scores, 0, -1)))
    lowest = -(scores.shape[1] * int(np.abs(whole).max()) + 1)
    index, best, second = _best_two(np, whole, lowest, lambda _, values: sum(values))
    return index, from_integers(best - second, unit)


def _best_two(
    xp: Any, scores: Any, lowest: float | int, total_of: Callable[[Any, list[Any]], Any]
) -> tuple[Any, Any, Any]:
    """Index and total of the best matching, total of the second; `scores[image, text, ...]`."""
    best = second = xp.full_like(scores[0, 0], lowest)
    index = xp.zeros_like(best, xp.int32)
    matchings = injective_matchings(scores.shape[0], scores.shape[1])
    for number, matching in enumerate(matchings.tolist()):
        total = total_of(xp, [scores[image, text] for image, text in enumerate(matching)])
        index = xp.where(total > best, xp.int32(number), index)
        second = xp.maximum(second, xp.minimum(total, best))
        best = xp.maximum(best, total)
    return index, best, second


def _sorted_total(xp: Any, values: list[Any]) -> Any:
    """The sum in ascending order of the numbers (of two, the order does not matter)."""
    ordered = list(values)
    if len(ordered) > 2:
        for last in range(len(ordered) - 1, 0, -1):
            for i in range(last):
                low, high = ordered[i], ordered[i + 1]
                ordered[i], ordered[i + 1] = xp.minimum(low, high), xp.maximum(low, high)
    return sum(ordered[1:], start=ordered[0])


def as_integers(values: Float64[np.ndarray, "*shape"]) -> tuple[Shaped[np.ndarray, "*shape"], int]:
    """The same numbers as whole multiples of 2**unit: int64 if sums fit, Python integers if not."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)  # 53 bits hold every mantissa
    used = whole != 0
    last_bit = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    unit = int((exponent - 53 + last_bit)[used].min(initial=0))
    bits = int(exponent[used].max(initial=0)) - unit
    if bits <= 55:  # 7 bits to spare: sums of up to 64 numbers, and their differences
        return np.ldexp(values, -unit).astype(np.int64), unit
    ratios = [value.as_integer_ratio() for value in values.ravel().tolist()]
    exact = np.empty(values.size, object)
    exact[:] = [(numerator << -unit) // denominator for numerator, denominator in ratios]
    return exact.reshape(values.shape), unit


def from_integers(values: Shaped[np.ndarray, " group"], unit: int) -> Float64[np.ndarray, " group"]:
    """Whole multiples of 2**unit as floats, correctly rounded.

    Only zero becomes 0.0: 2**unit is a bit of one of the scores, so no difference is below it.
    """
    if values.dtype == object:
        return np.array([value / (1 << -unit) for value in values.tolist()], np.float64)
    return np.ldexp(values.astype(np.float64), unit)
