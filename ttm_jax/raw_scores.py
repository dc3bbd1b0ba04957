"""The scores of a model as it is, without training anything."""

from typing import Any

import numpy as np

from ttm_jax import sharding
from ttm_jax.config import Matching, TTMConfig
from ttm_jax.data.groups import GroupedDataset


def raw_scores(
    model: Any, dataset: GroupedDataset, matching: Matching = "group"
) -> tuple[np.ndarray, ...]:
    """scores[group, image, text] of every block; global: of one group with everything."""
    config = TTMConfig(matching=matching)
    if matching == "global":
        dataset = dataset.ungrouped()
    task = model.bind(dataset, config, sharding.make_mesh(), 0)
    return task.score(task.initial.trained)
