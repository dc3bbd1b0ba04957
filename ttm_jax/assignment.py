"""Assignment problems that are too large to try every matching: large groups, and whole data sets.

scipy solves the assignment, but it says neither how far the second best is nor whether another one
is just as good; and it breaks ties by index, which on a benchmark means: towards the true pairs.
Both answers are found here.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int32, Shaped
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ttm_jax.exhaustive import as_integers

# Rows of the score matrix worked on at once.
_BLOCK = 256


def match_large_group(
    scores: Float64[np.ndarray, "image text"],
) -> tuple[Int32[np.ndarray, " image"], float]:
    """Best matching of one group and its margin over the second best (images <= texts, 2 or more
    matchings). A margin of 0 means that the best is not unique.

    The second best differs from the best in at least one image, so it is the best of those that
    forbid one pair of the best: one more assignment an image.
    """
    images = scores.shape[0]
    best = linear_sum_assignment(scores, maximize=True)[1]
    margin = math.inf
    for image in range(images):
        forbidden = scores.copy()
        forbidden[image, best[image]] = -np.inf
        other = linear_sum_assignment(forbidden, maximize=True)[1]
        rows = np.arange(images)
        # fsum rounds once, so that the result does not depend on the order of the images
        gain = math.fsum(np.concatenate([scores[rows, best], -scores[rows, other]]).tolist())
        margin = min(margin, gain)
    # The solver adds and subtracts along paths of up to 2 m numbers. Closer than that can be off,
    # the group is solved again in whole numbers.
    doubt = 16 * images**2 * float(np.abs(scores).max()) * 2.0**-53
    if margin > doubt:
        return best.astype(np.int32), margin
    return match_in_integers(scores)


def match_in_integers(
    scores: Float64[np.ndarray, "image text"],
) -> tuple[Int32[np.ndarray, " image"], float]:
    """As `match_large_group`, without rounding anywhere: Python integers, hence slow."""
    whole, unit = as_integers(scores)
    costs = -whole.astype(object)
    columns, row_dual, column_dual = _hungarian(costs)
    images, texts = costs.shape
    # A step from image i to image i' gives i the caption of i'. A walk in a circle is another
    # matching, and its length is what that matching loses. One more node stands for the captions
    # that no image has.
    spare = costs - row_dual[:, None] - column_dual[None, :]
    steps = np.zeros((images + 1, images + 1), object)
    steps[:images, :images] = spare[:, columns]
    if texts > images:
        steps[:images, images] = np.delete(spare, columns, axis=1).min(axis=1)
        steps[images, :images] = -column_dual[columns]
    else:
        steps = steps[:images, :images]
    return columns.astype(np.int32), _shortest_circle(steps) / (1 << -unit)


def _hungarian(
    costs: Shaped[np.ndarray, "row column"],
) -> tuple[Int[np.ndarray, " row"], Shaped[np.ndarray, " row"], Shaped[np.ndarray, " column"]]:
    """The cheapest assignment of Python-integer costs (rows <= columns), and its dual prices.

    Shortest augmenting paths, one row at a time (Kuhn 1955; Jonker and Volgenant 1987): the prices
    keep every spare cost `cost - row price - column price` >= 0, and at 0 for assigned pairs. A
    column without a row has price 0.
    """
    rows, columns = costs.shape
    row_dual, column_dual = np.zeros(rows, object), np.zeros(columns, object)
    owner = np.full(columns, -1)
    unreachable = 4 * int(np.abs(costs).sum()) + 1
    for start in range(rows):
        distance = np.full(columns, unreachable, object)
        previous = np.full(columns, -1)
        done: list[int] = []
        row, reached, column = start, 0, -1
        while row >= 0:
            path = reached + costs[row] - row_dual[row] - column_dual
            shorter = path < distance
            shorter[done] = False
            distance[shorter] = path[shorter]
            previous[shorter] = column
            open_columns = np.delete(np.arange(columns), done)
            column = int(open_columns[np.argmin(distance[open_columns])])
            reached = distance[column]
            row = int(owner[column])
            done.append(column)
        row_dual[start] += reached
        passed = done[:-1]
        row_dual[owner[passed]] += reached - distance[passed]
        column_dual[passed] -= reached - distance[passed]
        while previous[column] >= 0:
            owner[column] = owner[previous[column]]
            column = int(previous[column])
        owner[column] = start
    matched = np.empty(rows, int)
    matched[owner[owner >= 0]] = np.flatnonzero(owner >= 0)
    return matched, row_dual, column_dual


def _shortest_circle(steps: Shaped[np.ndarray, "node node"]) -> int:
    """The length of the shortest closed walk through two or more nodes (Floyd and Warshall)."""
    walk = steps.copy()
    np.fill_diagonal(walk, 0)
    for through in range(len(walk)):
        walk = np.minimum(walk, walk[:, through, None] + walk[None, through, :])
    circles = steps + walk.T
    return min(circles[~np.eye(len(steps), dtype=bool)].tolist())


def assign(
    scores: Float[np.ndarray, "image text"],
) -> tuple[Int32[np.ndarray, " image"], Bool[np.ndarray, " image"]]:
    """The best assignment of all images (images <= texts), and which of its pairs are settled.

    A pair is settled if every best assignment has it. The others could be exchanged at no cost
    (equal captions, for example), and which of them the solver returns depends on the order of the
    data. Scores are rounded to a grid on which all sums are exact, so that both the assignment and
    the answer depend on the numbers alone; the grid is finer than 1e-10 of the largest score up to
    10,000 captions.
    """
    costs = _on_grid(scores)
    columns = linear_sum_assignment(costs)[1]
    prices = _column_prices(costs, columns)
    return columns.astype(np.int32), _settled(costs, columns, prices)


def _on_grid(scores: Float[np.ndarray, "image text"]) -> Float64[np.ndarray, "image text"]:
    """Minus the scores in whole units: float64 holds sums of 8 n of them without rounding.

    The solver's path lengths and prices are sums of at most 2 n costs and their differences.
    """
    top = max(float(scores.max()), -float(scores.min()), np.finfo(np.float64).tiny)
    bits_for_sums = math.ceil(math.log2(8 * scores.shape[1]))
    unit = math.frexp(top)[1] + bits_for_sums - 53
    costs = np.negative(scores, dtype=np.float64)
    np.ldexp(costs, -unit, out=costs)
    return np.rint(costs, out=costs)


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
    """Which pairs lie on no circle of exchanges that cost nothing.

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
