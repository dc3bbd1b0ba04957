"""Nodes, grid and transport of one assignment: from images and captions to nodes, and back."""

import math
from typing import Any

import numpy as np

from ttm_jax.matching.checks import UNMATCHED
from ttm_jax.matching.large.embeddings import Distinct, Embeddings, distinct
from ttm_jax.matching.large.result import Certified, Round, Start
from ttm_jax.matching.large.search import Found, Prices, Tight, search
from ttm_jax.matching.large.survey import RowSummary, Survey
from ttm_jax.matching.large.transport import Transport

_FARTHEST = 16  # prices to begin with, relative to the largest score: sums stay exact
_OFTEN, _MOST_OFTEN = 20, 100  # equal captions: from how many on, and of how many sentences


class Problem:
    """Nodes, grid and transport of one assignment."""

    def __init__(self, given: Embeddings, start: Start | None) -> None:
        self.given = given
        self._margin = 0.0
        self.images: Distinct = distinct(np.asarray(given.images))
        self.texts: Distinct = distinct(np.asarray(given.texts))
        images, texts = given.shape
        if start is None or (len(start.matching), len(start.text_price)) != (images, texts):
            start = _anywhere(images, texts)
        self._image_price = _of_nodes(self.images, start.image_price)
        self._text_price = _of_nodes(self.texts, start.text_price)
        image = np.flatnonzero(start.matching != UNMATCHED)
        self._feasible = (
            self.images.node_of[image].astype(np.int64),
            self.texts.node_of[start.matching[image]].astype(np.int64),
        )

    def distinct_embeddings(self) -> Embeddings:
        g = self.given
        return Embeddings(
            self.images.values, self.texts.values, g.scale, g.bias, g.mesh, g.precision
        )

    def survey_inputs(self) -> tuple:
        units = self.images.counts, self.texts.counts
        return self._image_price, self._text_price, *units, self._wanted()

    def _wanted(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs that are always there: a matching, and all pairs of what there is very often."""
        rows, columns = [self._feasible[0]], [self._feasible[1]]
        for image in _most_frequent(self.images.counts):
            rows.append(np.full(len(self.texts), image))
            columns.append(np.arange(len(self.texts)))
        for text in _most_frequent(self.texts.counts):
            rows.append(np.arange(len(self.images)))
            columns.append(np.full(len(self.images), text))
        return np.concatenate(rows), np.concatenate(columns)

    def begin(self, found: Survey) -> None:
        """Choose the grid, and set up the transport over the pairs that were found."""
        self.survey = found
        self.largest = max(found.highest, -found.lowest, float(np.finfo(np.float64).tiny))
        larger = max(self.given.shape)
        # As in `assignment.py`, so that results are the same.
        self.unit = math.frexp(self.largest)[1] + math.ceil(math.log2(8 * larger)) - 53
        images, texts = self.given.shape
        supply, demand = self.images.counts, self.texts.counts
        # The price of getting no caption is that of the image that would pay the least.
        hint = np.append(-self._text_price, self._image_price.min())
        hint = np.clip(hint, -_FARTHEST * self.largest, _FARTHEST * self.largest)
        price = np.rint(np.ldexp(hint, -self.unit))
        if images < texts:  # what is left over goes to a source that likes all captions the same
            supply = np.append(supply, texts - images)
        if texts < images:
            demand = np.append(demand, images - texts)
        self.transport = Transport(supply, demand, price[: len(demand)])
        rows, columns, scores = found.pairs
        rows, columns = (
            np.concatenate(both) for both in zip((rows, columns), self._wanted(), strict=True)
        )
        self._add(rows, columns, np.concatenate([scores, found.wanted]))
        if images != texts:
            nodes = self.texts if images < texts else self.images
            every = np.arange(len(nodes))
            rest = np.full(len(every), len(self.images) if images < texts else len(self.texts))
            rows, columns = (rest, every) if images < texts else (every, rest)
            free = np.zeros(len(every))
            self.transport.add(rows, columns, free, free.astype(np.float32))

    def _add(self, rows: np.ndarray, columns: np.ndarray, scores: np.ndarray) -> None:
        self.transport.add(rows, columns, self.prices().cost(scores), scores)

    def prices(self) -> Prices:
        t = self.transport
        real = t.source_price[: len(self.images)], t.target_price[: len(self.texts)]
        return Prices(*real, self.unit, self.largest, self._margin)

    def search(self, tiles: Any) -> Found:
        """Compare all pairs with the prices of the transport."""
        t = self.transport
        sources = len(t.supply)
        tight = Tight(sources + len(t.demand))
        used = t.flow > 0
        tight.add(t.rows[used], sources + t.columns[used], backwards=True)
        left_over = (t.rows >= len(self.images)) | (t.columns >= len(self.texts))
        left_over &= t.reduced == 0
        tight.add(t.rows[left_over], sources + t.columns[left_over])
        # What an image has already is no exchange.
        own = np.full(len(self.images), -1, np.int64)
        single = used & (t.rows < len(self.images)) & (t.flow == t.supply[t.rows])
        own[t.rows[single]] = t.columns[single]
        found = search(tiles, self.prices(), own, tight, sources)
        if found.count:  # prices will move about as far
            self._margin = float(np.median(found.shortfall[found.shortfall > 0]))
        return found

    def short(self, found: Found) -> float:
        """The most that all images together could save."""
        return float((self.images.counts * found.shortfall).sum())

    def magnitude(self) -> float:
        return float((self.transport.flow * np.abs(self.transport.cost)).sum())

    def answer(self, found: Found, rounds: tuple[Round, ...]) -> Certified:
        """From nodes back to single images and captions."""
        t, (images, texts) = self.transport, self.given.shape
        arc = np.repeat(np.arange(len(t.flow)), t.flow)  # one line per unit, ordered by source
        image, _ = self.images.units()
        text, _ = self.texts.units()
        by_target = np.argsort(t.columns[arc], kind="stable")
        text_of = np.full(len(arc), UNMATCHED, np.int64)
        text_of[by_target[:texts]] = text
        matching = np.full(images, UNMATCHED, np.int32)
        matching[image] = text_of[:images]
        similarity = np.full(images, -np.inf)
        similarity[image] = t.score[arc[:images]]
        similarity[matching == UNMATCHED] = -np.inf
        prices = self.prices()
        image_price = -np.ldexp(prices.row, self.unit)[self.images.node_of]
        text_price = -np.ldexp(prices.column, self.unit)[self.texts.node_of]
        return Certified(
            matching=matching,
            unique=self._unique(found, matching),
            similarity=similarity,
            summary=self._summary(),
            rounds=rounds,
            start=Start(image_price, text_price, matching),
        )

    def _unique(self, found: Found, matching: np.ndarray) -> np.ndarray:
        """Pairs on no exchange that costs nothing; of equal images or captions, none is."""
        component = found.tight.components()
        alone = np.bincount(component)[component[: len(self.images)]] == 1
        alone &= self.images.counts == 1
        unique = alone[self.images.node_of] & (matching != UNMATCHED)
        unique[unique] = (self.texts.counts[self.texts.node_of] == 1)[matching[unique]]
        return unique

    def _summary(self) -> RowSummary:
        """Of images and captions instead of nodes: an equal caption can be the second best."""
        s, (text, begin) = self.survey.summary, self.texts.units()
        several = self.texts.counts[s.first] > 1
        second = np.where(several, s.first, s.second)
        second_score = np.where(several, s.first_score, s.second_score)
        place = np.where(several, begin[s.first] + 1, begin[np.maximum(second, 0)])
        of = self.images.node_of
        return RowSummary(
            first=text[begin[s.first]].astype(np.int32)[of],
            first_score=s.first_score[of],
            second=np.where(second < 0, -1, text[np.minimum(place, len(text) - 1)]).astype(
                np.int32
            )[of],
            second_score=second_score.astype(np.float32)[of],
            log_total=s.log_total[of],
        )


def _most_frequent(counts: np.ndarray) -> np.ndarray:
    """The few nodes with the most units, if those are many."""
    often = np.flatnonzero(counts > _OFTEN)
    return often[np.argsort(-counts[often], kind="stable")[:_MOST_OFTEN]]


def _anywhere(images: int, texts: int) -> Start:
    """No prices, and some matching. It is never the diagonal, which is the truth of benchmarks."""
    short, larger = np.arange(min(images, texts)), max(images, texts)
    other = (short + larger // 2) % larger
    matching = np.full(images, UNMATCHED, np.int32)
    if images <= texts:
        matching[short] = other
    else:
        matching[other] = short
    return Start(np.zeros(images), np.zeros(texts), matching)


def _of_nodes(nodes: Distinct, values: np.ndarray) -> np.ndarray:
    """One of the values of the units of each node."""
    found = np.zeros(len(nodes))
    found[nodes.node_of] = values
    return found
