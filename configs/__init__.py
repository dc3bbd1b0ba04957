"""The paper's tables of hyperparameters as values: one preset a row, one file a table.

from configs import find_preset
preset = find_preset("mmvp_vlm", "siglip_b16")
longer = dataclasses.replace(preset.ttm, iterations=20)
"""

from configs import global_matching, main_2x2, smolvlm, sugarcrepe_1x2, whatsup_1x4, whatsup_2x2
from configs.preset import Preset
from ttm_jax.config import Matching
from ttm_jax.data.paper.models import MODELS
from ttm_jax.errors import InputError

__all__ = ["MODELS", "PRESETS", "Preset", "find_preset"]

PRESETS: tuple[Preset, ...] = (
    *main_2x2.PRESETS,
    *smolvlm.PRESETS,
    *sugarcrepe_1x2.PRESETS,
    *whatsup_1x4.PRESETS,
    *whatsup_2x2.PRESETS,
    *global_matching.PRESETS,
)


def find_preset(dataset: str, model: str, matching: Matching = "group") -> Preset:
    """The preset of a dataset and a model, by the names of the paper's tables."""
    fits = [preset for preset in PRESETS if preset.ttm.matching == matching]
    for preset in fits:
        if (preset.dataset, preset.model) == (dataset, model):
            return preset
    known = [
        f"{p.dataset} with {p.model}" for p in fits if dataset == p.dataset or model == p.model
    ]
    have = ", ".join(known) or ", ".join(sorted({p.dataset for p in fits}))
    raise InputError(
        f"the paper has no {matching} matching of {dataset} with {model}; it has {have}"
    )
