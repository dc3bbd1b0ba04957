"""The experiments that only score: what the figures on metrics and thresholds have in common."""

from collections.abc import Iterator
from typing import Any

from configs.experiments import Experiment
from experiments._flags import Flags, check, start
from experiments._load import Data, load_data, load_model
from experiments._paper import Plan, make_plans, open_folder
from ttm_jax.config import Matching
from ttm_jax.hosts.shared_folder import write_json


def score_arms(
    experiment: Experiment, flags: Flags, matching: Matching
) -> Iterator[tuple[Plan, Data, tuple[Any, ...]]]:
    """Every arm with its data and the scores of its untrained model; none with `--dry-run`."""
    check(flags)
    flags = start(flags)
    for plan in make_plans(experiment, flags):
        data = load_data(plan.arm, flags)
        if flags.dry_run:
            units, source = len(data.dataset), plan.source
            print(f"{experiment.name} {plan.arm.label}: {source} would score {units} groups once, "
                  f"in {plan.folder}; nothing is trained, and nothing was written")  # fmt: skip
            continue
        open_folder(plan, data)
        from ttm_jax.engine.raw_scores import raw_scores

        model = load_model(plan.source)
        yield plan, data, raw_scores(model, data.dataset, matching, plan.config)


def write_summary(plan: Plan, data: Data, metrics: dict[str, Any]) -> None:
    """What `ttm figures` reads: the metrics of the untrained model, and whose they are."""
    summary = {
        "raw": metrics,
        "dataset": name_of_data(plan, data),
        "model": name_of_model(plan),
        "note": plan.note(data),
        "data": data.facts,
    }
    write_json(plan.folder / "summary.json", summary)


def name_of_data(plan: Plan, data: Data) -> str:
    """The paper's name only for the paper's data."""
    return plan.arm.preset.dataset if data.comparable else data.dataset.name


def name_of_model(plan: Plan) -> str:
    """The paper's name only for the paper's model."""
    own = plan.flags.small or plan.flags.model is not None
    return plan.source if own else plan.arm.preset.model
