"""Which row of the paper's tables a run folder may be held against, if any."""

from collections.abc import Mapping
from dataclasses import replace

from ttm_jax.data.paper import PaperResult, PaperSetting, find_result, paper_settings
from ttm_jax.report.run_data import Experiment

# Fields of a run's config that the paper's tables of hyperparameters give.
_SETTINGS = (
    "tau_1", "tau_T", "tau_unit", "schedule", "lr", "epochs", "batch_groups", "augment",
    "keep_opt_state",
)  # fmt: skip
_NAMES = {
    "winoground": "Winoground",
    "mmvp_vlm": "MMVP-VLM",
    "colorswap": "ColorSwap",
    "siglip_b16": "SigLIP-B16",
    "siglip_l16": "SigLIP-L16",
    "clip_b16": "CLIP-B16",
    "clip_b32": "CLIP-B32",
    "smolvlm_256m": "SmolVLM-256M",
    "gpt_4_1": "GPT-4.1",
}


def paper_result(experiment: Experiment, models: Mapping[str, str]) -> PaperResult | None:
    """The paper's row for this data and model; without its TTM column if the settings are others.

    What was run is said by experiment.json, or by the name of the dataset and the source of the
    model: `models` maps a source ("google/siglip-base-patch16-224") to the paper's name for it.
    None for other data, other models, and another number of groups.
    """
    run = experiment.first
    if experiment.note or experiment.info.get("small"):
        return None
    model = experiment.info.get("model") or models.get(run.identity["model"]["source"], "")
    row = find_result(experiment.dataset, model, run.config["matching"])
    if row is None or row.groups != units(experiment):
        return None
    if _same_settings(experiment, model):
        same = find_result(
            row.dataset, row.model, row.matching, iterations=run.config["iterations"]
        )
        if same is not None:
            return same
    return replace(row, ttm=None, ttm_std=None)


def units(experiment: Experiment) -> int:
    """What is selected or not: groups, or images of a global matching."""
    run = experiment.first
    if run.is_global:
        return int(next(iter(run.shapes)).split("x")[0])
    return sum(run.shapes.values())


def pretty(name: str) -> str:
    """Names as the paper prints them; others as they are."""
    if name in _NAMES:
        return _NAMES[name]
    for start, title in (("sugarcrepe_", "SugarCrepe"), ("whatsup_", "WhatsUp")):
        if name.startswith(start):
            rest = name.removeprefix(start).replace("_", " ")
            return f"{title} {rest[:1].upper()}{rest[1:]}"
    return name


def _same_settings(experiment: Experiment, model: str) -> bool:
    config = experiment.config
    if config["oracle"] or config["train"] != "all":
        return False
    return any(
        (s.dataset, s.model, s.matching) == (experiment.dataset, model, config["matching"])
        and _fits(s, config)
        for s in paper_settings()
    )


def _fits(setting: PaperSetting, config: Mapping[str, object]) -> bool:
    return all(getattr(setting, name) == config[name] for name in _SETTINGS)
