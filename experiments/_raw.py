"""The experiments that only score: what the figures on metrics and thresholds have in common."""

from collections.abc import Iterator
from typing import Any

from configs.experiments import Experiment
from experiments._flags import Flags, check
from experiments._load import Data, load_data, load_model
from experiments._paper import Plan, make_plans, open_folder
from ttm_jax.config import Matching


def score_arms(
    experiment: Experiment, flags: Flags, matching: Matching
) -> Iterator[tuple[Plan, Data, tuple[Any, ...]]]:
    """Every arm with its data and the scores of its model as it came."""
    from ttm_jax.raw_scores import raw_scores

    check(flags)
    for plan in make_plans(experiment, flags):
        data = load_data(plan.arm, flags)
        open_folder(plan, data)
        model = load_model(plan.source)
        yield plan, data, raw_scores(model, data.dataset, matching)
