"""The first pass over all pairs: the most promising ones, and what reports need of each image."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64, Int32, Int64

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, columns and scores of some pairs."""


@dataclass(frozen=True, eq=False)
class RowSummary:
    """The best two captions of each image, and log(sum(exp(score))) over all captions.

    `second` is -1, and its score -inf, if there is only one caption.
    """

    first: Int32[np.ndarray, " image"]
    first_score: Float32[np.ndarray, " image"]
    second: Int32[np.ndarray, " image"]
    second_score: Float32[np.ndarray, " image"]
    log_total: Float64[np.ndarray, " image"]


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass found."""

    pairs: Pairs
    wanted: Float32[np.ndarray, " pair"]
    """The scores of the pairs that were asked for."""
    summary: RowSummary
    lowest: float
    highest: float


def survey(
    tiles: Any,
    count: int,
    row_price: Float[np.ndarray, " row"],
    column_price: Float[np.ndarray, " column"],
    row_units: Int64[np.ndarray, " row"],
    column_units: Int64[np.ndarray, " column"],
    wanted: tuple[Int64[np.ndarray, " pair"], Int64[np.ndarray, " pair"]],
) -> Survey:
    """The best `count` captions of each image after prices, likewise the best images of captions;
    of several equal ones as many times more.

    Of each part of a row only the best is considered: a pair that is missed costs a later pass some
    work, and nothing else.
    """
    rows = _RowCollector(tiles, count * row_units)
    columns = _ColumnCollector(tiles, count * column_units)
    asked = _Asked(tiles, *wanted)
    price_of_row = tiles.padded_rows(row_price)
    price_of_column = tiles.padded_columns(column_price)
    weight = tiles.padded_columns(column_units.astype(np.float32))
    for number, tile in enumerate(tiles):
        by_row = tiles.row_maxima(tile, price_of_column)
        by_column = tiles.column_maxima(tile, price_of_row)
        statistics = tiles.statistics(tile, weight)
        asked.take(number, tile)
        rows.take(tile, by_row, statistics)
        columns.take(tile, by_column)
    rows.close()
    pairs = [*rows.pairs, columns.pairs()]
    together = tuple(np.concatenate([part[side] for part in pairs]) for side in range(3))
    summary, lowest = rows.summary()
    return Survey(
        (together[0], together[1], together[2]),
        asked.scores,
        summary,
        lowest,
        float(summary.first_score.max()),
    )


def best_of(
    left: Float32[np.ndarray, "line part"], count: Int64[np.ndarray, " line"]
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """Lines and parts of the highest `count` numbers of each line; -inf is none."""
    chosen = np.zeros(left.shape, bool)
    usual = int(count.min())
    if left.shape[1] > usual:
        np.put_along_axis(chosen, np.argpartition(-left, usual - 1, axis=1)[:, :usual], True, 1)
    else:
        chosen[:] = True
    for line in np.flatnonzero(count > usual):
        chosen[line, np.argsort(-left[line])[: count[line]]] = True
    lines, parts = np.nonzero(chosen & np.isfinite(left))
    return lines, parts


class _Asked:
    """Scores of given pairs, picked from the tiles that they are in."""

    def __init__(self, tiles: Any, rows: np.ndarray, columns: np.ndarray) -> None:
        self._tiles, self._rows, self._columns = tiles, rows, columns
        places = tiles.place_of(rows, columns)
        self._order = np.argsort(places, kind="stable")
        self._places = places[self._order]
        self.scores = np.zeros(len(rows), np.float32)

    def take(self, number: int, tile: Any) -> None:
        low, high = np.searchsorted(self._places, [number, number + 1])
        if low < high:
            mine = self._order[low:high]
            found = self._tiles.elements(
                tile, self._rows[mine] - tile.row, self._columns[mine] - tile.column
            )
            self.scores[mine] = found


@dataclass(eq=False)
class _RowCollector:
    """Rows come one tile after the other; a line of tiles is reduced when it is complete."""

    tiles: Any
    count: Int64[np.ndarray, " row"]
    pairs: list[Pairs] = field(default_factory=list)
    _line: list[tuple[Any, Any, Any]] = field(default_factory=list)
    _done: list[tuple[np.ndarray, ...]] = field(default_factory=list)

    def take(self, tile: Any, maxima: tuple[Any, ...], statistics: tuple[Any, ...]) -> None:
        if self._line and self._line[0][0].row != tile.row:
            self.close()
        self._line.append(
            (tile, [np.asarray(x) for x in maxima], [np.asarray(x) for x in statistics])
        )

    def close(self) -> None:
        """Reduce the tiles of one line."""
        row = self._line[0][0].row
        real = min(self.tiles.height, self.tiles.rows - row)
        left, place, score = (
            np.concatenate([part[1][side][:real] for part in self._line], axis=1)
            for side in range(3)
        )
        lines, parts = best_of(left, self.count[row : row + real])
        columns = parts * self.tiles.part_width + place[lines, parts]
        self.pairs.append((row + lines, columns.astype(np.int64), score[lines, parts]))
        self._done.append(_merge([(part[0].column, part[2]) for part in self._line], real))
        self._line = []

    def summary(self) -> tuple[RowSummary, float]:
        first, first_score, second, second_score, total, lowest = (
            np.concatenate(side) for side in zip(*self._done, strict=True)
        )
        found = RowSummary(
            first.astype(np.int32), first_score, second.astype(np.int32), second_score, total
        )
        return found, float(lowest.min())


class _ColumnCollector:
    """The maxima of all parts of all columns; the best of them in the end."""

    def __init__(self, tiles: Any, count: Int64[np.ndarray, " column"]) -> None:
        self._tiles, self._count = tiles, count
        shape = (-(-tiles.rows // tiles.part_height), tiles.columns)
        self._left = np.full(shape, -np.inf, np.float32)
        self._score = np.zeros(shape, np.float32)
        self._place = np.zeros(shape, np.int32)

    def take(self, tile: Any, maxima: tuple[Any, ...]) -> None:
        begin = tile.row // self._tiles.part_height
        parts = min(self._tiles.height // self._tiles.part_height, len(self._left) - begin)
        width = min(self._tiles.width, self._tiles.columns - tile.column)
        where = np.s_[begin : begin + parts, tile.column : tile.column + width]
        for mine, found in zip((self._left, self._place, self._score), maxima, strict=True):
            mine[where] = np.asarray(found)[:parts, :width]

    def pairs(self) -> Pairs:
        columns, parts = [], []
        for start in range(0, self._tiles.columns, 4096):
            some = np.s_[start : start + 4096]
            lines, best = best_of(self._left[:, some].T, self._count[some])
            columns.append(start + lines)
            parts.append(best)
        column, part = np.concatenate(columns), np.concatenate(parts)
        rows = part * self._tiles.part_height + self._place[part, column]
        return rows.astype(np.int64), column, self._score[part, column]


def _merge(tiles: list[tuple[int, list[np.ndarray]]], real: int) -> tuple[np.ndarray, ...]:
    """The statistics of a line of tiles together."""
    scores = np.concatenate([[s[0][:real], s[2][:real]] for _, s in tiles])  # [2 per tile, row]
    places = np.concatenate([[c + s[1][:real], c + s[3][:real]] for c, s in tiles])
    order = np.argsort(-scores, axis=0, kind="stable")[:2]
    first_score, second_score = np.take_along_axis(scores, order, axis=0)
    first, second = np.take_along_axis(places, order, axis=0)
    second = np.where(np.isfinite(second_score), second, -1)
    highest = np.stack([s[0][:real] for _, s in tiles]).astype(np.float64)
    masses = np.stack([s[4][:real] for _, s in tiles]).astype(np.float64)
    total = first_score + np.log((masses * np.exp(highest - first_score)).sum(axis=0))
    lowest = np.min([s[5][:real] for _, s in tiles], axis=0)
    return first, first_score, second, second_score, total, lowest
