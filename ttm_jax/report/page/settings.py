"""The settings that a run used, also those that were left open, and where it ran."""

import json
from typing import Any

from ttm_jax.config import TTMConfig
from ttm_jax.plain_text import one_line
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables.paper_numbers import units

_OPEN = {"memory.remat": "auto", "memory.chunk": -1}  # the machine decides; results are the same
Facts = list[tuple[str, str]]


def used_settings(experiment: Experiment) -> Facts:
    """What decided the result: the first threshold and the batch as they came out."""
    run, config = experiment.first, experiment.config
    unit = "pairs" if run.is_global else "groups"
    batch = batch_units(experiment)
    found: dict[str, Any] = {}
    if run.last:
        row = run.rows[1]
        share = 100 * row["selected"] / row["units"]
        found["tau_1"] = f"{row['tau']:.4g}, which selected {share:.2f} % of the {unit}"
    elif config["tau_1"] is not None:
        found["tau_1"] = config["tau_1"]
    found |= {"tau_T": config["tau_T"], "tau_unit": config["tau_unit"]}
    found |= {"schedule": config["schedule"], "lr": config["lr"]}
    found["batch"] = f"{batch} {unit}"
    # Settings that did not apply, that were left open, or that are said above already.
    skipped = {"tau_1", "batch_groups", "grow_batch", "coverage"}
    skipped |= set() if config["train"].startswith("lora") else {"lora_rank"}
    for name, value in _flat(config, "").items():
        if name not in found and name not in skipped and value != _OPEN.get(name):
            found[name] = value
    return [(name, _said(value)) for name, value in found.items()]


def batch_units(experiment: Experiment) -> int:
    """Groups or pairs per batch, as the run computed them from the settings and its data."""
    config = experiment.config
    asked = TTMConfig(
        matching=config["matching"],
        batch_groups=config["batch_groups"],
        grow_batch=config.get("grow_batch", True),  # older folders do not say
    )
    return asked.batch_units(units(experiment))


def provenance(experiment: Experiment) -> Facts:
    """Folders, model, data and environment: what experiment.json and environment.json say."""
    run = experiment.first
    found = {
        "folder": ", ".join(one_line(str(run.path)) for run in experiment.runs),
        **{f"experiment.{key}": value for key, value in experiment.info.items()},
        **_flat(run.identity["model"], "model"),
        **_flat(run.identity["dataset"], "dataset"),
        **_flat(run.environment, "environment"),
    }
    return [(name, _said(value)) for name, value in found.items()]


def _flat(content: Any, name: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        return {name: content}
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value, f"{name}.{key}".lstrip("."))
    return flat


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
