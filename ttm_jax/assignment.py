"""Assignment problems that are too large to try every matching: large groups, and whole data sets.

scipy solves the assignment, but it says neither how far the second best is nor whether another one
is just as good; and it breaks ties by index, which on a benchmark means: towards the true pairs.
Both answers are found here. Scores are first rounded to a grid on which float64 adds without error,
so that nothing depends on the order of images and captions. The step of the grid is about 3e-11 of
the largest score for 10,000 captions, and less for fewer.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int32
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ttm_jax.exhaustive import rounding_of

# Rows of the score matrix worked on at once.
_BLOCK = 256
# Scores this many times lower than the rows' best are taken for a mask (-1e9 for "never").
_MASK = 1024


def match_large_group(
    scores: Float[np.ndarray, "image text"],
) -> tuple[Int32[np.ndarray, " image"], float]:
    """Best matching of one group and its margin over the second best (images <= texts, 2 or more
    matchings). A margin of 0 means that the best is not unique, by the rules of `exhaustive.py`.
    """
    images = len(scores)
    wide = scores.astype(np.float64)
    floor, gap = _mask_level(wide)
    costs, unit = _on_grid(wide, floor)
    best = linear_sum_assignment(costs)[1]
    margin = math.ldexp(min(_losses(costs, best)), unit)
    if margin >= gap:  # the second best has a masked pair, whose true score counts
        costs, unit = _on_grid(wide, -math.inf)
        margin = math.ldexp(min(_losses(costs, best)), unit)
    size = math.fsum(np.abs(wide[np.arange(images), best]).tolist())
    # Rounding of both totals, and half a step of the grid for each of their scores.
    if margin > 2 * rounding_of(scores.dtype, images) * size + math.ldexp(images, unit):
        return best.astype(np.int32), margin
    top = wide.max(axis=1, keepdims=True)
    wins = wide == top
    if (wins.sum(axis=1) == 1).all() and (wins.sum(axis=0) <= 1).all():
        winners = wins.argmax(axis=1)
        return winners.astype(np.int32), min(_losses(top - wide, winners))
    return best.astype(np.int32), 0.0


def _losses(
    costs: Float64[np.ndarray, "image text"], best: Int[np.ndarray, " image"]
) -> list[float]:
    """What the best matching without this pair loses, for each pair of the best.

    The second best differs from the best in some pair, so its loss is the smallest of these.
    """
    rows = np.arange(len(best))
    own = costs[rows, best]
    losses = []
    for row in rows:
        without = costs.copy()
        without[row, best[row]] = np.inf
        other = linear_sum_assignment(without)[1]
        losses.append(math.fsum((costs[rows, other] - own).tolist()))
    return losses


def assign(
    scores: Float[np.ndarray, "image text"],
) -> tuple[Int32[np.ndarray, " image"], Bool[np.ndarray, " image"]]:
    """The best assignment of all images (images <= texts), and which of its pairs are settled.

    A pair is settled if every best assignment has it. The others could be exchanged at no cost
    (equal captions, for example), and which of them the solver returns depends on the order of the
    data. Finding out costs about a quarter of the assignment itself.
    """
    costs, _ = _on_grid(scores, _mask_level(scores)[0])
    columns = linear_sum_assignment(costs)[1]
    prices = _column_prices(costs, columns)
    return columns.astype(np.int32), _settled(costs, columns, prices)


def _on_grid(
    scores: Float[np.ndarray, "image text"], floor: float
) -> tuple[Float64[np.ndarray, "image text"], int]:
    """Minus the scores in whole multiples of 2**unit; float64 adds 8 n of them without rounding.

    The solver's path lengths and prices are sums of at most 2 n costs and their differences. Scores
    below `floor` are raised to it.
    """
    top = max(float(scores.max()), -max(float(scores.min()), floor), np.finfo(np.float64).tiny)
    unit = math.frexp(top)[1] + math.ceil(math.log2(8 * scores.shape[1])) - 53
    costs = np.negative(scores, dtype=np.float64)
    np.minimum(costs, -floor, out=costs)
    np.ldexp(costs, -unit, out=costs)
    return np.rint(costs, out=costs), unit


def _mask_level(scores: Float[np.ndarray, "image text"]) -> tuple[float, float]:
    """A level to which very low scores can be raised, and by how much assignments that have one of
    them stay worse than the best. (-inf, inf) if there are none.

    A mask such as -1e9 would set the scale otherwise, and the grid be too coarse for the rest.
    """
    highest = float(np.abs(scores.max(axis=1)).max())
    if highest == 0 or -float(scores.min()) <= _MASK * highest:
        return -math.inf, math.inf
    rows, columns = linear_sum_assignment(scores, maximize=True)
    total = math.fsum(scores[rows, columns].astype(np.float64).tolist())
    gap = len(rows) * highest
    return total - (len(rows) - 1) * float(scores.max()) - gap, gap


def _column_prices(
    costs: Float64[np.ndarray, "image text"], columns: Int[np.ndarray, " image"]
) -> Float64[np.ndarray, " text"]:
    """Dual prices of a best assignment: no image would gain by paying for another caption.

    Shortest paths from caption to caption, where a step gives the owner of one caption another one
    (Bellman and Ford). Captions without an owner can be exchanged freely. No circle is shorter than
    0, because the assignment is best; so this ends.
    """
    texts = costs.shape[1]
    prices = np.zeros(texts)
    unowned = np.delete(np.arange(texts), columns)
    own_cost = costs[np.arange(len(columns)), columns]
    changed = np.arange(len(columns))
    while changed.size:
        before = prices[columns]
        for start in range(0, len(changed), _BLOCK):
            rows = changed[start : start + _BLOCK]
            offer = costs[rows] + (prices[columns[rows]] - own_cost[rows])[:, None]
            np.minimum(prices, offer.min(axis=0), out=prices)
        if unowned.size:
            np.minimum(prices, prices[unowned].min(), out=prices)
        changed = np.flatnonzero(prices[columns] < before)
    return prices


def _settled(
    costs: Float64[np.ndarray, "image text"],
    columns: Int[np.ndarray, " image"],
    prices: Float64[np.ndarray, " text"],
) -> Bool[np.ndarray, " image"]:
    """Which pairs lie on no circle of exchanges that costs nothing.

    An exchange along a circle costs nothing if and only if each of its steps is at the price
    exactly. Images on such circles are the strongly connected components of two or more nodes.
    """
    images, texts = costs.shape
    owner = np.full(texts, images)  # the node `images` stands for all captions without an owner
    owner[columns] = np.arange(images)
    sources, targets = [], []
    own_cost = costs[np.arange(images), columns]
    for start in range(0, images, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, images))
        offer = costs[rows] + (prices[columns[rows]] - own_cost[rows])[:, None]
        row, column = np.nonzero(offer == prices)
        sources.append((row + start).astype(np.int32))
        targets.append(owner[column].astype(np.int32))
    if texts > images:
        free_price = prices[owner == images].min()
        targets.append(np.flatnonzero(prices[columns] == free_price).astype(np.int32))
        sources.append(np.full(len(targets[-1]), images, np.int32))
    source, target = np.concatenate(sources), np.concatenate(targets)
    steps = coo_array(
        (np.ones(len(source), np.int8), (source, target)), shape=(images + 1, images + 1)
    )
    _, component = connected_components(steps, directed=True, connection="strong")
    return np.bincount(component)[component[:images]] == 1
