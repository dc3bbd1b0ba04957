"""Global matching where the scores of all pairs are too many for a matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.pair_scores import PairScores, pair_scores
from ttm_jax.matching.large.result import Limits, Round
from ttm_jax.training.task import Scores


def matched(
    scores: Scores,
    config: TTMConfig,
    previous: Scores | None = None,
    on_round: Callable[[Round], None] = lambda found: None,
) -> Scores:
    """Match what a task has only embedded; anything else stays as it is.

    `previous` are the scores of the iteration before: their prices and pairs are a good start.
    """
    if not isinstance(scores[0], Embeddings):
        return scores
    before = previous[0] if previous else None
    start = before.start if isinstance(before, PairScores) else None
    seconds = np.inf if config.match_seconds is None else config.match_seconds
    limits = Limits(seconds, config.match_gap)
    return (pair_scores(scores[0], start=start, limits=limits, on_round=on_round),)


def count_not_finite(scores: Scores) -> int:
    """How many scores, or numbers of embeddings, are not finite."""
    arrays: list[Any] = []
    for block in scores:
        if isinstance(block, Embeddings):
            arrays += [block.images, block.texts, block.scale, block.bias]
        else:
            arrays.append(block)
    return sum(int(np.sum(~np.isfinite(np.asarray(array)))) for array in arrays)


def assignment_of(scores: Scores) -> dict[str, Any]:
    """What a row of the log says about the proof; nothing for a matrix, which is always solved."""
    block = scores[0]
    return {"assignment": block.report} if isinstance(block, PairScores) else {}


def round_text(found: Round) -> str:
    """For a progress display."""
    if not found.violations:
        return f"matching all pairs, round {found.number}: proved optimal"
    return (
        f"matching all pairs, round {found.number}: {found.violations:,} pairs below their price, "
        f"gap at most {found.gap:.1e}"
    )


def runner_ups(scores: Any, matching: np.ndarray) -> np.ndarray:
    """Of each image of each group the best caption besides its own; -1 if there is no other."""
    if isinstance(scores, PairScores):
        return scores.runner_up[None]
    found = np.full(matching.shape, -1, np.int32)
    if scores.shape[2] == 1 and (matching >= 0).all():
        return found
    for group, (values, chosen) in enumerate(zip(scores, matching, strict=True)):
        others = values.astype(np.float64)
        rows = np.flatnonzero(chosen >= 0)
        others[rows, chosen[rows]] = -np.inf
        found[group] = others.argmax(axis=1)
        found[group][~np.isfinite(others.max(axis=1))] = -1
    return found
