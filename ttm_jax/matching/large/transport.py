"""The cheapest way to carry supplies to demands along some arcs, exactly, and its prices.

An assignment is a transport in which every supply and every demand is 1; equal images or captions
are one node with more. The method is primal-dual: each phase finds the distance of every node to
the nearest demand that is left (scipy's Dijkstra), adds it to the prices, and sends as much as
possible along the arcs that now cost nothing (scipy's maximum flow). It can begin with any prices,
so arcs that are added later need little work.

Costs are whole numbers so small that float64 adds and subtracts them without rounding.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra, maximum_flow


@dataclass(eq=False)
class Transport:
    """Supplies and demands of equal total, some arcs between them, and what is known so far."""

    supply: Int64[np.ndarray, " source"]
    demand: Int64[np.ndarray, " target"]
    target_price: Float64[np.ndarray, " target"]
    """`cost - source_price - target_price` is never negative, and 0 where something flows."""
    source_price: Float64[np.ndarray, " source"] = field(init=False)
    rows: Int64[np.ndarray, " arc"] = field(init=False)
    columns: Int64[np.ndarray, " arc"] = field(init=False)
    cost: Float64[np.ndarray, " arc"] = field(init=False)
    score: Float32[np.ndarray, " arc"] = field(init=False)
    """What `cost` was made from; not used here."""
    flow: Int64[np.ndarray, " arc"] = field(init=False)
    phases: int = field(init=False, default=0)
    """How often prices have changed."""

    def __post_init__(self) -> None:
        assert self.supply.sum() == self.demand.sum()
        self.source_price = np.zeros(len(self.supply))
        self.rows = self.columns = np.zeros(0, np.int64)
        self.flow = np.zeros(0, np.int64)
        self.cost = np.zeros(0)
        self.score = np.zeros(0, np.float32)

    def add(
        self,
        rows: Int32[np.ndarray, " arc"] | Int64[np.ndarray, " arc"],
        columns: Int32[np.ndarray, " arc"] | Int64[np.ndarray, " arc"],
        cost: Float64[np.ndarray, " arc"],
        score: Float32[np.ndarray, " arc"],
    ) -> None:
        """Add arcs; those that are there already stay as they are."""
        rows = np.concatenate([self.rows, rows.astype(np.int64)])
        columns = np.concatenate([self.columns, columns.astype(np.int64)])
        cost = np.concatenate([self.cost, cost])
        score = np.concatenate([self.score, score])
        flow = np.concatenate([self.flow, np.zeros(len(cost) - len(self.flow), np.int64)])
        _, first = np.unique(rows * len(self.demand) + columns, return_index=True)
        self.rows, self.columns = rows[first], columns[first]
        self.cost, self.score, self.flow = cost[first], score[first], flow[first]

    def solve(self) -> None:
        """Find an optimal flow over the arcs, and its prices.

        Every source must be able to send all it has; the caller adds arcs that allow it.
        """
        self._begin()
        self._send()
        while (self._left(self.rows, self.supply) > 0).any():
            self._reprice()
            self._send()
            self.phases += 1
        middle = float(np.median(self.target_price))  # prices count only relative to each other
        self.target_price = self.target_price - middle
        self.source_price = self.source_price + middle

    @property
    def total(self) -> float:
        """The cost of what flows; exact."""
        return float((self.flow * self.cost).sum())

    @property
    def reduced(self) -> Float64[np.ndarray, " arc"]:
        """The cost of each arc beyond the prices of its ends."""
        return self.cost - self.source_price[self.rows] - self.target_price[self.columns]

    def _left(self, ends: np.ndarray, given: np.ndarray) -> np.ndarray:
        """What each source still has, or each target still needs."""
        used = np.bincount(ends, self.flow, len(given))  # floats, but whole and small
        return given - used.astype(np.int64)

    def _begin(self) -> None:
        """Prices that suit all arcs; what flows along an arc that is too dear now is taken back."""
        price = np.full(len(self.supply), np.inf)
        np.minimum.at(price, self.rows, self.cost - self.target_price[self.columns])
        assert np.isfinite(price).all()  # every source has an arc
        self.source_price = price
        self.flow[self.reduced > 0] = 0

    def _send(self) -> None:
        """As much as possible along arcs that cost nothing; what flows already may be rerouted."""
        sources, targets = len(self.supply), len(self.demand)
        tight = np.flatnonzero(self.reduced == 0)
        row, column, carried = self.rows[tight], self.columns[tight], self.flow[tight]
        room = np.minimum(self.supply[row], self.demand[column])
        here, there = self._left(self.rows, self.supply), self._left(self.columns, self.demand)
        begin, end = np.flatnonzero(here), np.flatnonzero(there)
        back = np.flatnonzero(carried)
        start, stop = sources + targets, sources + targets + 1
        tail = [np.full(len(begin), start), row, sources + column[back], sources + end]
        head = [begin, sources + column, row[back], np.full(len(end), stop)]
        most = [here[begin], room, carried[back], there[end]]
        graph = csr_array(
            (
                np.concatenate(most).astype(np.int32),
                (np.concatenate(tail), np.concatenate(head)),
            ),
            shape=(stop + 1, stop + 1),
        )
        sent = maximum_flow(graph, start, stop, method="dinic").flow.tocoo()
        inner = (sent.row < sources) & (sent.col >= sources) & (sent.col < start) & (sent.data != 0)
        key = sent.row[inner].astype(np.int64) * targets + (sent.col[inner] - sources)
        place = np.searchsorted(self.rows * targets + self.columns, key)
        self.flow[place] += sent.data[inner]

    def _reprice(self) -> None:
        """Add to each price the distance to the nearest target that still needs something."""
        sources, targets = len(self.supply), len(self.demand)
        used = np.flatnonzero(self.flow)
        by_target = np.argsort(self.columns, kind="stable")
        # Backwards: from a target along arcs to it, and from a source along what flows out of it.
        counts = [np.bincount(self.columns, minlength=targets), self._count(used)]
        graph = csr_array(
            (
                np.concatenate([self.reduced[by_target], np.zeros(len(used))]),
                np.concatenate([targets + self.rows[by_target], self.columns[used]]),
                np.concatenate([[0], np.cumsum(np.concatenate(counts))]),
            ),
            shape=(sources + targets, sources + targets),
        )
        needy = np.flatnonzero(self._left(self.columns, self.demand))
        distance = dijkstra(graph, indices=needy, min_only=True)
        farthest = distance[targets:][self._left(self.rows, self.supply) > 0].max()
        assert np.isfinite(farthest)  # or a source cannot send what it has
        distance = np.minimum(distance, farthest)
        self.target_price = self.target_price - distance[:targets]
        self.source_price = self.source_price + distance[targets:]

    def _count(self, used: np.ndarray) -> np.ndarray:
        return np.bincount(self.rows[used], minlength=len(self.supply))
