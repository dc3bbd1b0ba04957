"""The answer of a run as rows for people: image, caption, confidence, runner-up."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.engine.global_scores import runner_ups
from ttm_jax.engine.pseudo_labels import Induced, induce
from ttm_jax.matching.large.pair_scores import PairScores


def pair_table(
    dataset: GroupedDataset,
    scores: Any,
    matchings: Any,
    before: Any,
    config: TTMConfig,
    folder: Path | None = None,
) -> list[dict[str, Any]]:
    """One row per image of each group; arrays as in `TTMResult`. `TTMResult.table` names the keys.

    Confidence is the share of the chosen caption among all captions of the group: a softmax over
    the image's logits, or of probabilities each one's part in their sum.
    """
    one_group = config.matching == "global"
    if one_group:
        dataset = dataset.ungrouped()
    blocks = _blocks(scores, one_group)
    induced = induce(blocks, config.matching)
    rows: list[dict[str, Any]] = []
    for number, (block, values, found) in enumerate(
        zip(dataset.blocks, blocks, induced, strict=True)
    ):
        new = _blocks(matchings, one_group)[number]
        old = _blocks(before, one_group)[number]
        if isinstance(values, PairScores):
            shares = values.confidence[None]
        else:
            every = _shares(values, logits=config.tau_unit != "probability")
            own = np.maximum(new, 0)[:, :, None]
            shares = np.take_along_axis(every, own, axis=2)[:, :, 0]
        others = runner_ups(values, new)
        rows += _block_rows(dataset, block, others, shares, found, new, old, folder, one_group)
    return rows


def _block_rows(
    dataset: GroupedDataset,
    block: Block,
    others: np.ndarray,
    shares: np.ndarray,
    found: Induced,
    new: np.ndarray,
    old: np.ndarray,
    folder: Path | None,
    one_group: bool,
) -> Iterator[dict[str, Any]]:
    for group in range(len(block)):

        def text(caption: int, group: int = group) -> str | None:
            if caption < 0:
                return None
            return dataset.caption_text(int(block.text_index[group, caption]))

        for image in range(block.shape[0]):
            unit = image if one_group else group
            chosen, earlier = int(new[group, image]), int(old[group, image])
            row = {
                "group": block.ids[group],
                "image": dataset.image_name(int(block.image_index[group, image]), folder),
                "caption": text(chosen),
                "confidence": None if chosen < 0 else float(shares[group, image]),
                "runner_up": text(int(others[group, image])),
                "margin": float(found.confidence[unit]),
                "unique": bool(found.unique[unit]),
                "before": text(earlier),
                "changed": chosen != earlier,
            }
            if block.truth is not None:
                truth = int(block.truth[group, image])
                row |= {"truth": text(truth), "right": bool(found.unique[unit]) and chosen == truth}
            yield row


def _shares(scores: np.ndarray, *, logits: bool) -> np.ndarray:
    if logits:
        powers = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    total = scores.sum(axis=-1, keepdims=True)
    return np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)


def _blocks(values: Any, one_group: bool) -> tuple[Any, ...]:
    """Undo what a result does to arrays of a single shape or a single group."""
    if isinstance(values, tuple):
        return values
    if isinstance(values, PairScores):
        return (values,)
    return (values[None],) if one_group else (values,)
