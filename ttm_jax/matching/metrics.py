"""The paper's metrics, from `scores[group, image, text]` and the true caption of every image.

All comparisons are strict: a tie counts as wrong. `docs/metrics.md` defines the metrics in words.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from jaxtyping import Bool, Integer
from numpy.typing import ArrayLike

from ttm_jax.errors import InputError
from ttm_jax.matching import chance
from ttm_jax.matching.checks import UNMATCHED, as_group_scores, as_score_matrix, as_truth
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.pair_scores import PairScores, pair_scores, too_many
from ttm_jax.matching.match import (
    GlobalMatching,
    GroupMatching,
    global_matching,
    groups_right,
    match_checked_groups,
    match_global,
    pairs_right,
)
from ttm_jax.matching.over_groups import over_groups
from ttm_jax.matching.rate_interval import Rate

GROUP_METRICS = ("text_score", "image_score", "group_score", "group_match", "individual_match")
GLOBAL_METRICS = ("global_match", "row_argmax")


@dataclass(frozen=True, eq=False)
class GroupMetric:
    """Number of correct decisions in each group, out of `per_group` decisions."""

    right: Integer[np.ndarray, " group"] | Bool[np.ndarray, " group"]
    per_group: int
    chance: float

    def rate(self, among: Bool[np.ndarray, " group"] | None = None) -> Rate:
        """The rate over all groups, or over those selected by `among`."""
        right = self.right if among is None else self.right[among]
        count = np.count_nonzero(right) if self.per_group == 1 else right.sum()
        return Rate(int(count), self.per_group * len(right), self.chance)


@dataclass(frozen=True, eq=False)
class GroupEvaluation:
    """Matchings, margins and, if the truth is known, every metric that applies to the shape."""

    shape: tuple[int, int]
    """Images and captions per group."""
    matching: GroupMatching
    """The best matching of each group, its margin, and whether it is unique."""
    metrics: dict[str, GroupMetric]
    """By name; empty if the truth is unknown. Text score needs at least as many captions as
    images, image score at least as many images as captions. The others apply to every shape."""

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.matching.margin)

    @property
    def has_truth(self) -> bool:
        """Whether the truth is known."""
        return bool(self.metrics)

    def rates(self, among: Bool[np.ndarray, " group"] | None = None) -> dict[str, Rate]:
        """Every metric as a rate.

        Args:
            among: Count only the groups where this is True; all groups if None.

        Returns:
            Rates by the name of the metric.
        """
        return {name: metric.rate(among) for name, metric in self.metrics.items()}


@dataclass(frozen=True, eq=False)
class GlobalEvaluation:
    """One matching of all images to all captions and, if the truth is known, its metrics."""

    shape: tuple[int, int]
    """Numbers of images and captions."""
    matching: GlobalMatching
    """The caption of each image, its similarity, and whether the pair is unique."""
    rates: dict[str, Rate]
    """By name; empty if the truth is unknown."""
    right: Bool[np.ndarray, " image"] | None
    """Whether the caption of each image is correct; None if the truth is unknown."""


def evaluate(scores: ArrayLike, truth: ArrayLike | None) -> GroupEvaluation:
    """Match groups of one shape and compute every metric that applies to it.

    Args:
        scores: `[group, image, text]`, higher for a better fit.
        truth: The index of the true caption of each image, `[group, image]`; -1 for an image that
            no caption describes. None if the truth is unknown.

    Returns:
        The best matching of each group with its margin, and the metrics.

    Raises:
        InputError: The arrays do not fit together, or a score is not finite.

    Examples:
        >>> from ttm_jax import evaluate
        >>> scores = [[[3.0, 2.0], [1.0, 2.5]], [[0.4, 0.9], [0.5, 0.8]]]
        >>> found = evaluate(scores, truth=[[0, 1], [0, 1]])
        >>> found.matching.matching.tolist()
        [[0, 1], [1, 0]]
        >>> found.rates()["group_match"].percent
        50.0
    """
    array = as_group_scores(scores)
    shape = (array.shape[1], array.shape[2])
    if truth is None:
        return GroupEvaluation(shape, match_checked_groups(array), {})
    true_caption = as_truth(truth, array.shape)
    matching = match_checked_groups(array)
    images, texts = shape
    images_right, texts_right = over_groups(_count_right, array, true_caption)
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
        groups_right(matching.matching, matching.unique, true_caption),
        1,
        chance.group_match(*shape),
    )
    metrics["individual_match"] = GroupMetric(
        images_right if images <= texts else texts_right,
        min(shape),
        chance.individual_match(*shape),
    )
    return GroupEvaluation(shape, matching, metrics)


def _count_right(scores: Any, truth: Any) -> tuple[Any, Any]:
    """How many images pick their caption and how many captions pick their image in a group.

    A pick must be strictly the highest of its row or column. `scores[image, text, ...]`.
    """
    images, texts = range(scores.shape[0]), range(scores.shape[1])
    paired = [[truth[i] == t for t in texts] for i in images]
    own = [[np.where(paired[i][t], scores[i, t], -math.inf) for t in texts] for i in images]
    others = [[np.where(paired[i][t], -math.inf, scores[i, t]) for t in texts] for i in images]

    def wins(lines: Iterable[Sequence[Any]], rivals: Iterable[Sequence[Any]]) -> Any:
        # A line without a true pair has -inf as its own score and does not win.
        return sum(
            (reduce(np.maximum, line) > reduce(np.maximum, rival)).astype(np.int32)
            for line, rival in zip(lines, rivals, strict=True)
        )

    columns, column_rivals = zip(*own, strict=True), zip(*others, strict=True)
    return wins(own, others), wins(columns, column_rivals)


def by_tag(
    evaluation: GroupEvaluation, tags: Sequence[Sequence[str]]
) -> dict[str, dict[str, Rate]]:
    """The rates of the groups with each tag, in order of first appearance of the tags."""
    if len(tags) != evaluation.groups:
        raise InputError(f"{len(tags)} lists of tags for {evaluation.groups} groups; give one each")
    names = dict.fromkeys(tag for group in tags for tag in group)
    return {
        name: evaluation.rates(np.array([name in group for group in tags], bool)) for name in names
    }


def evaluate_global(
    scores: ArrayLike | Embeddings | PairScores, truth: ArrayLike | None
) -> GlobalEvaluation:
    """Match all images to all captions and compute the metrics of that assignment.

    Args:
        scores: `[image, text]`, higher for a better fit; or embeddings, of which very many pairs
            are matched without a matrix; or what such a matching has kept.
        truth: The index of the true caption of each image, `[image]`; -1 for an image that no
            caption describes. None if the truth is unknown.

    Returns:
        The best assignment, and the metrics.

    Raises:
        InputError: The arrays do not fit together, or a score is not finite.

    Examples:
        >>> from ttm_jax import evaluate_global
        >>> found = evaluate_global([[3.0, 2.0], [2.5, 1.0]], truth=[0, 1])
        >>> found.matching.matching.tolist()
        [1, 0]
        >>> found.rates["row_argmax"].percent
        50.0
    """
    if isinstance(scores, Embeddings):
        given = scores.checked()
        scores = pair_scores(given) if too_many(*given.shape) else given.dense()
    known = scores if isinstance(scores, PairScores) else as_score_matrix(scores)
    shape = (known.shape[-2], known.shape[-1])
    true_caption = None if truth is None else as_truth(np.asarray(truth)[None], (1, *shape))[0]
    matching = global_matching(known) if isinstance(known, PairScores) else match_global(known)
    if true_caption is None:
        return GlobalEvaluation(shape, matching, {}, None)
    right = pairs_right(matching.matching, matching.unique, true_caption)
    rows = np.flatnonzero(true_caption != UNMATCHED)
    highest = _own_is_highest(known, rows, true_caption[rows])
    rates = {
        "global_match": Rate(int(right.sum()), min(shape), chance.global_match(*shape)),
        "row_argmax": Rate(int(highest.sum()), len(rows), chance.row_argmax(shape[1])),
    }
    return GlobalEvaluation(shape, matching, rates, right)


def _own_is_highest(
    scores: np.ndarray | PairScores, rows: np.ndarray, columns: np.ndarray
) -> Bool[np.ndarray, " row"]:
    """Whether these scores are strictly the highest of their rows."""
    if isinstance(scores, PairScores):
        s = scores.summary
        return (s.first[rows] == columns) & (s.first_score > s.second_score)[rows]
    own = scores[rows, columns]
    return (scores[rows] >= own[:, None]).sum(axis=1) == 1  # only its own score reaches it
