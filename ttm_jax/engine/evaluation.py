"""Metrics of a whole dataset: blocks of all shapes combined, by group or as one assignment."""

from typing import Any

import numpy as np

from ttm_jax.config import Matching
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.matching import metrics
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.pair_scores import PairScores
from ttm_jax.matching.rate_interval import Rate
from ttm_jax.training.task import Scores


def evaluate(
    scores: Scores,
    dataset: GroupedDataset,
    kind: Matching,
    embeddings: Embeddings | None = None,
) -> dict[str, dict[str, Any]]:
    """Every metric as {"percent", "count", "of", "chance"}; empty if the truth is unknown.

    `dataset` keeps its groups even for a global matching, whose scores are one big group: the paper
    reports GroupScore there "with the extra knowledge of the group structure". Where the pairs are
    too many for a matrix, the scores within groups come from `embeddings`.
    """
    if not dataset.has_truth:
        return {}
    rates: dict[str, list[Rate]] = {}
    if kind == "global":
        whole: Any = scores[0] if isinstance(scores[0], PairScores) else scores[0][0]
        truth = dataset.ungrouped().blocks[0].truth
        assert truth is not None  # has_truth
        for name, rate in metrics.evaluate_global(whole, truth[0]).rates.items():
            rates.setdefault(name, []).append(rate)
        if len(dataset) == 1:  # the data has no groups
            return {name: _together(parts) for name, parts in rates.items()}
        scores = split_groups(whole if embeddings is None else embeddings, dataset)
    for values, block in zip(scores, dataset.blocks, strict=True):
        for name, rate in metrics.evaluate(values, block.truth).rates().items():
            rates.setdefault(name, []).append(rate)
    return {name: _together(parts) for name, parts in rates.items()}


def split_groups(whole: np.ndarray | Embeddings, dataset: GroupedDataset) -> Scores:
    """The scores of each group, from the matrix of all images and captions or from embeddings."""
    parts, row, column = [], 0, 0
    for block in dataset.blocks:
        count, (n_images, n_texts) = len(block), block.shape
        rows = row + np.arange(count * n_images).reshape(count, n_images)
        columns = column + np.arange(count * n_texts).reshape(count, n_texts)
        if isinstance(whole, Embeddings):
            parts.append(whole.within(rows, columns))
        else:
            parts.append(whole[rows[:, :, None], columns[:, None, :]])
        row, column = row + rows.size, column + columns.size
    return tuple(parts)


def _together(parts: list[Rate]) -> dict[str, Any]:
    """One rate over blocks of several shapes; its chance level is the mean over their units."""
    count, of = sum(rate.count for rate in parts), sum(rate.of for rate in parts)
    return Rate(count, of, sum(rate.chance * rate.of for rate in parts) / of).as_json()
