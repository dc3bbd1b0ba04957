"""The metrics of the paper, from `scores[group, image, text]` and the true caption of every image.

All comparisons are strict: on a tie nobody wins. `docs/metrics.md` has the definitions in words.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from jaxtyping import Bool, Integer
from numpy.typing import ArrayLike

from ttm_jax import chance
from ttm_jax.errors import InputError
from ttm_jax.matching import (
    GlobalMatching,
    GroupMatching,
    is_right,
    match_checked_groups,
    match_global,
)
from ttm_jax.over_groups import in_numpy, over_groups
from ttm_jax.rates import Rate
from ttm_jax.scores import UNMATCHED, as_group_scores, as_score_matrix, as_truth

GROUP_METRICS = ("text_score", "image_score", "group_score", "group_match", "individual_match")
GLOBAL_METRICS = ("global_match", "row_argmax")
_MOST_COMPILED = 24


@dataclass(frozen=True, eq=False)
class GroupMetric:
    """How many decisions of each group are right, of `per_group` that are taken in each."""

    right: Integer[np.ndarray, " group"] | Bool[np.ndarray, " group"]
    per_group: int
    chance: float

    def rate(self, among: Bool[np.ndarray, " group"] | None = None) -> Rate:
        """Over all groups, or over some of them."""
        right = self.right if among is None else self.right[among]
        count = np.count_nonzero(right) if self.per_group == 1 else right.sum()
        return Rate(int(count), self.per_group * len(right), self.chance)


@dataclass(frozen=True, eq=False)
class GroupEvaluation:
    """Matchings and margins, and, where the truth is known, every metric that applies to the shape.

    `metrics` is empty if the truth is unknown. Text score needs as many captions as images or more,
    image score the other way round; the rest applies to every shape.
    """

    shape: tuple[int, int]
    matching: GroupMatching
    metrics: dict[str, GroupMetric]

    @property
    def groups(self) -> int:
        return len(self.matching.margin)

    @property
    def has_truth(self) -> bool:
        return bool(self.metrics)

    def rates(self, among: Bool[np.ndarray, " group"] | None = None) -> dict[str, Rate]:
        return {name: metric.rate(among) for name, metric in self.metrics.items()}


@dataclass(frozen=True, eq=False)
class GlobalEvaluation:
    """One matching of all images; `right[i]` where the truth is known. See `GroupEvaluation`."""

    shape: tuple[int, int]
    matching: GlobalMatching
    rates: dict[str, Rate]
    right: Bool[np.ndarray, " image"] | None


def evaluate(scores: ArrayLike, truth: ArrayLike | None) -> GroupEvaluation:
    """Everything about groups of one shape.

    `truth[group, image]` is the caption of each image: `ttm_jax.scores.diagonal(scores)` for the
    order of the benchmarks, None if nobody knows.
    """
    array = as_group_scores(scores)
    shape = (array.shape[1], array.shape[2])
    if truth is None:
        return GroupEvaluation(shape, match_checked_groups(array), {})
    true_caption = as_truth(truth, array.shape)
    matching = match_checked_groups(array)
    images, texts = shape
    # every comparison is written out, which only small groups can afford to have compiled
    count = over_groups if images * texts <= _MOST_COMPILED else in_numpy
    images_right, texts_right = count(_count_right, array, true_caption)
    metrics = {}
    if images <= texts:
        text = images_right == images
        metrics["text_score"] = GroupMetric(text, 1, chance.text_score(*shape))
    if images >= texts:
        image = texts_right == texts
        metrics["image_score"] = GroupMetric(image, 1, chance.image_score(*shape))
    group = text & image if images == texts else text if images < texts else image
    metrics["group_score"] = GroupMetric(group, 1, chance.group_score(*shape))
    metrics["group_match"] = GroupMetric(
        is_right(matching, true_caption), 1, chance.group_match(*shape)
    )
    metrics["individual_match"] = GroupMetric(
        images_right if images <= texts else texts_right,
        min(shape),
        chance.individual_match(*shape),
    )
    return GroupEvaluation(shape, matching, metrics)


def _count_right(xp: Any, scores: Any, truth: Any) -> tuple[Any, Any]:
    """How many images find their caption and how many captions find their image in a group.

    Found means: strictly the highest of the row or column. `scores[image, text, ...]`.
    """
    images, texts = range(scores.shape[0]), range(scores.shape[1])
    paired = [[truth[i] == t for t in texts] for i in images]
    own = [[xp.where(paired[i][t], scores[i, t], -math.inf) for t in texts] for i in images]
    others = [[xp.where(paired[i][t], -math.inf, scores[i, t]) for t in texts] for i in images]

    def wins(lines: Iterable[Sequence[Any]], rivals: Iterable[Sequence[Any]]) -> Any:
        # A line without a pair has nothing of its own, -inf, and does not win.
        return sum(
            (reduce(xp.maximum, line) > reduce(xp.maximum, rival)).astype(xp.int32)
            for line, rival in zip(lines, rivals, strict=True)
        )

    columns, column_rivals = zip(*own, strict=True), zip(*others, strict=True)
    return wins(own, others), wins(columns, column_rivals)


def by_tag(
    evaluation: GroupEvaluation, tags: Sequence[Sequence[str]]
) -> dict[str, dict[str, Rate]]:
    """The rates of the groups with each tag, in the order in which the tags first appear."""
    if len(tags) != evaluation.groups:
        raise InputError(f"{len(tags)} lists of tags for {evaluation.groups} groups; give one each")
    names = dict.fromkeys(tag for group in tags for tag in group)
    return {
        name: evaluation.rates(np.array([name in group for group in tags], bool)) for name in names
    }


def evaluate_global(scores: ArrayLike, truth: ArrayLike | None) -> GlobalEvaluation:
    """Everything about one matrix of all images and captions; `truth[image]`, None if unknown."""
    array = as_score_matrix(scores)
    shape = (array.shape[0], array.shape[1])
    if truth is None:
        return GlobalEvaluation(shape, match_global(array), {}, None)
    true_caption = as_truth(np.asarray(truth)[None], (1, *shape))[0]
    matching = match_global(array)
    right = (matching.matching == true_caption) & matching.unique
    rows = np.flatnonzero(true_caption != UNMATCHED)
    own = array[rows, true_caption[rows]]
    highest = (array[rows] >= own[:, None]).sum(axis=1) == 1  # only its own score reaches it
    rates = {
        "global_match": Rate(int(right.sum()), min(shape), chance.global_match(*shape)),
        "row_argmax": Rate(int(highest.sum()), len(rows), chance.row_argmax(shape[1])),
    }
    return GlobalEvaluation(shape, matching, rates, right)
