"""Scores of a model without any training."""

import numpy as np

from ttm_jax.config import Matching, TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.model import Model
from ttm_jax.training import sharding


def raw_scores(
    model: Model,
    dataset: GroupedDataset,
    matching: Matching = "group",
    config: TTMConfig | None = None,
) -> tuple[np.ndarray, ...]:
    """scores[group, image, text] of every block; if global, of one group with everything.

    Of `config`, only what decides how scores are computed is used: dtype, precision, placement.
    """
    usual = config or TTMConfig()
    config = TTMConfig(
        matching=matching,
        dtype=usual.dtype,
        precision=usual.precision,
        placement=usual.placement,
    )
    if matching == "global":
        dataset = dataset.ungrouped()
    task = model.bind(dataset, config, sharding.make_mesh(), 0)
    return task.score(task.initial.trained)
