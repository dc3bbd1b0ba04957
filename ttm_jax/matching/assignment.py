"""Assignment for problems too large to enumerate every matching: large groups and whole data sets.

scipy solves the assignment, but it reports neither the gap to the second best nor whether another
solution is equally good, and it breaks ties by index, which on a benchmark favours the true pairs.
This module computes both. Scores are first rounded to a grid on which float64 sums are exact, so
that no result depends on the order of images and captions. The grid step is about 3e-11 of the
largest score for 10,000 captions, and smaller for fewer captions.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int32
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ttm_jax.matching.exhaustive import rounding_of

# Number of score-matrix rows processed at once.
_BLOCK = 256
# Scores below minus this many times the largest row maximum count as a mask (-1e9 for "never").
_MASK = 1024


def match_large_group(
    scores: Float[np.ndarray, "image text"],
) -> tuple[Int32[np.ndarray, " image"], float]:
    """Return the best matching of one group and its margin over the second best.

    Requires images <= texts and at least 2 possible matchings. A margin of 0 means that the best
    matching is not unique, by the rules in `exhaustive.py`.
    """
    images = len(scores)
    wide = scores.astype(np.float64)
    floor, gap = _mask_level(wide)
    costs, unit = _on_grid(wide, floor)
    best = linear_sum_assignment(costs)[1]
    margin = math.ldexp(min(_losses(costs, best)), unit)
    if margin >= gap:  # the second best contains a masked pair, whose true score counts
        costs, unit = _on_grid(wide, -math.inf)
        margin = math.ldexp(min(_losses(costs, best)), unit)
    size = math.fsum(np.abs(wide[np.arange(images), best]).tolist())
    # Rounding of both totals, plus half a grid step for each of their scores.
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
    """For each pair of the best matching, the loss of the best matching that excludes the pair.

    The second best differs from the best in at least one pair, so its loss is the minimum of these.
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
    """Return the best assignment of all images (images <= texts) and which pairs are unique.

    A pair is unique if every optimal assignment contains it. The other pairs can be exchanged at no
    cost (identical captions, for example), and which of them the solver returns depends on the
    order of the data. The uniqueness check takes about a quarter of the time of the assignment.
    """
    costs, _ = _on_grid(scores, _mask_level(scores)[0])
    columns = linear_sum_assignment(costs)[1]
    prices = _column_prices(costs, columns)
    return columns.astype(np.int32), _settled(costs, columns, prices)


def _on_grid(
    scores: Float[np.ndarray, "image text"], floor: float
) -> tuple[Float64[np.ndarray, "image text"], int]:
    """Negated scores as integer multiples of 2**unit; float64 adds 8 n of them without rounding.

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
    """Return a level to which very low scores can be raised, and a lower bound on how much worse
    than the best every assignment with such a score remains. (-inf, inf) if there are none.

    Otherwise a mask such as -1e9 would set the scale, and the grid would be too coarse for the
    remaining scores.
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
    """Dual prices of an optimal assignment: no image gains by switching to another caption.

    Computed as shortest paths between captions (Bellman-Ford), where a step gives the owner of one
    caption another caption. Captions without an owner can be exchanged freely. The assignment is
    optimal, so there is no negative cycle and the loop terminates.
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
    """Find the pairs that are on no zero-cost exchange cycle.

    A cycle costs nothing if and only if each of its steps is exactly at the dual price. The images
    on such cycles form the strongly connected components with two or more nodes.
    """
    images, texts = costs.shape
    owner = np.full(texts, images)  # node `images` represents all captions without an owner
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
