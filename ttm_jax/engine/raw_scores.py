"""Scores of a model without any training."""

from collections.abc import Callable

from ttm_jax.config import Matching, TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.global_scores import matched
from ttm_jax.engine.model import Model
from ttm_jax.matching.large.result import Round
from ttm_jax.training import sharding
from ttm_jax.training.task import Scores


def raw_scores(
    model: Model,
    dataset: GroupedDataset,
    matching: Matching = "group",
    config: TTMConfig | None = None,
    on_round: Callable[[Round], None] = lambda found: None,
) -> Scores:
    """scores[group, image, text] of every block; if global, of one group with everything, or of
    too many pairs for that `PairScores`.

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
    return matched(task.score(task.initial.trained), usual, on_round=on_round)
