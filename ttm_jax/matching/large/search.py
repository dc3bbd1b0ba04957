"""A pass over all pairs that looks for what the prices do not allow: the proof of an optimum.

Devices compute in float32. They point out every part of a row in which something may be at its
price or below it; those few are compared again here, without rounding.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_ROUNDING = 2.0**-21  # of the largest number: a few roundings of float32, twice
_MOST_TIGHT = 20_000_000  # pairs at their price that are kept before they are reduced
_PER_ROW = 16  # pairs that are found of each row and tile, the worst violations first
_AT_ONCE = 2**24  # scores of parts in memory


@dataclass(frozen=True, eq=False)
class Found:
    """Violations are pairs whose cost is below the prices. Without any, the flow is optimal.

    The pairs are the worst violations of each row, and others that may soon be some.
    """

    rows: Int64[np.ndarray, " pair"]
    columns: Int64[np.ndarray, " pair"]
    cost: Float64[np.ndarray, " pair"]
    score: Float32[np.ndarray, " pair"]
    count: int
    """Of all violations."""
    shortfall: Float64[np.ndarray, " row"]
    """How far the cheapest caption of each image is below its price; 0 if none is."""
    tight: "Tight"


class Tight:
    """Pairs exactly at their price, as arcs of a graph. Where there are too many, nodes that can
    reach each other become one: only that is asked later."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._label = np.arange(nodes, dtype=np.int32)
        self._arcs: list[tuple[np.ndarray, np.ndarray]] = []
        self._count = 0

    def add(self, source: np.ndarray, target: np.ndarray, *, backwards: bool = False) -> None:
        source, target = self._label[source], self._label[target]
        if backwards:
            source, target = target, source
        self._arcs.append((source, target))
        self._count += len(source)
        if self._count > _MOST_TIGHT:
            self._reduce()

    def components(self) -> np.ndarray:
        """Equal numbers for nodes that can reach each other."""
        self._reduce()
        return self._label

    def _reduce(self) -> None:
        source, target = (
            np.concatenate([np.zeros(0, np.int32), *(arc[side] for arc in self._arcs)])
            for side in (0, 1)
        )
        other = source != target
        key = np.unique(source[other].astype(np.int64) * self._nodes + target[other])
        source, target = (x.astype(np.int32) for x in np.divmod(key, self._nodes))
        graph = coo_array(
            (np.ones(len(key), np.int8), (source, target)), shape=(self._nodes, self._nodes)
        )
        _, component = connected_components(graph, directed=True, connection="strong")
        self._label = component[self._label].astype(np.int32)
        self._arcs = [(component[source].astype(np.int32), component[target].astype(np.int32))]
        self._count = len(key)


@dataclass(frozen=True, eq=False)
class Prices:
    """What is searched with; costs and prices are multiples of 2**unit."""

    row: Float64[np.ndarray, " row"]
    column: Float64[np.ndarray, " column"]
    unit: int
    largest: float
    """The largest score."""
    margin: float = 0.0
    """Pairs that are above their price by less than this are found too: when prices change they
    would be violations, and each round costs a pass."""

    def cost(self, scores: Float32[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
        """Negated scores on the grid."""
        return np.rint(np.ldexp(-scores.astype(np.float64), -self.unit))


def search(
    tiles: Any,
    prices: Prices,
    own: Int64[np.ndarray, " row"],
    tight: Tight,
    column_node: int,
) -> Found:
    """Compare all pairs with their prices.

    Pairs at their price become arcs of `tight`, in which column j is node `column_node + j`; but
    not a row and its `own` column.
    """
    # A score above minus the price of its row and column is a violation.
    high, wide = -np.ldexp(prices.row, prices.unit), -np.ldexp(prices.column, prices.unit)
    slack = _ROUNDING * (prices.largest + np.abs(high).max() + np.abs(wide).max())
    limit = high - slack - math.ldexp(prices.margin, prices.unit)
    price = tiles.padded_columns(wide)
    collector = _Collector(tiles, prices, own, tight, column_node)
    at_once = max(1, _AT_ONCE // tiles.part_width)
    for tile in tiles:
        highest = np.asarray(tiles.row_highest(tile, price))
        real = min(tiles.height, tiles.rows - tile.row)
        rows, parts = np.nonzero(highest[:real] >= limit[tile.row : tile.row + real, None])
        for start in range(0, len(rows), at_once):
            collector.look(tile, rows[start : start + at_once], parts[start : start + at_once])
    return collector.found()


class _Collector:
    """Looks closely at parts of rows, and keeps what it finds."""

    def __init__(
        self, tiles: Any, prices: Prices, own: np.ndarray, tight: Tight, column_node: int
    ) -> None:
        self._tiles, self._prices, self._own = tiles, prices, own
        self._tight, self._column_node = tight, column_node
        self._shortfall = np.zeros(len(prices.row))
        self._count = 0
        empty = (np.zeros(0, np.int64),) * 2 + (np.zeros(0), np.zeros(0, np.float32))
        self._bad: list[tuple[np.ndarray, ...]] = [empty]

    def look(self, tile: Any, rows: np.ndarray, parts: np.ndarray) -> None:
        width = self._tiles.part_width
        scores = self._tiles.parts(tile, rows, parts)
        row = np.broadcast_to((tile.row + rows)[:, None], scores.shape)
        column = (tile.column + parts * width)[:, None] + np.arange(width)
        real = column < self._tiles.columns
        row, column, scores = row[real], column[real], scores[real]
        cost = self._prices.cost(scores)
        over = cost - self._prices.row[row] - self._prices.column[column]
        at = np.flatnonzero((over == 0) & (self._own[row] != column))
        self._tight.add(row[at], self._column_node + column[at])
        at = np.flatnonzero(over < 0)
        self._count += len(at)
        np.minimum.at(self._shortfall, row[at], over[at])
        at = np.flatnonzero((over < self._prices.margin) & (over != 0))
        if not len(at):
            return
        at = at[_worst(row[at], over[at])]
        self._bad.append((row[at], column[at], cost[at], scores[at]))

    def found(self) -> Found:
        row, column, cost, score = (np.concatenate(x) for x in zip(*self._bad, strict=True))
        return Found(row, column, cost, score, self._count, -self._shortfall, self._tight)


def _worst(row: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Positions of at most a few of each row."""
    order = np.lexsort((over, row))
    row = row[order]
    begin = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
    rank = np.arange(len(row)) - np.repeat(begin, np.diff(np.append(begin, len(row))))
    return order[rank < _PER_ROW]
