"""What stands in for each benchmark when an experiment runs with `--small`.

Groups of the same shape from the procedural world, as near in meaning as it has them. Two
benchmarks that are drawn from the same variant have different seeds, so different groups.
"""

from dataclasses import dataclass, replace

from configs.preset import Preset
from ttm_jax.config import TTMConfig
from ttm_jax.data.benchmarks.catalogue import find_benchmark
from ttm_jax.small.settings import small_config


@dataclass(frozen=True)
class WorldSet:
    """A benchmark of `ttm_jax.data.world`."""

    variant: str
    seed: int = 0


WORLD = {
    "winoground": WorldSet("size_swap"),  # the same words in another order
    "mmvp_vlm": WorldSet("texture_swap"),
    "colorswap": WorldSet("color_swap"),
    "sugarcrepe_replace_rel": WorldSet("replace_color"),
    "sugarcrepe_swap_att": WorldSet("swap_attribute"),
    "sugarcrepe_swap_obj": WorldSet("replace_shape"),
    "sugarcrepe_add_att": WorldSet("add_attribute"),
    "whatsup_a": WorldSet("relation_choice"),
    "whatsup_b": WorldSet("relation_choice", seed=1),
    "whatsup_a_left_right": WorldSet("left_right"),
    "whatsup_a_on_under": WorldSet("above_below"),
    "whatsup_b_left_right": WorldSet("left_right", seed=1),
    "whatsup_b_front_behind": WorldSet("front_behind"),
}

SMALL_MODELS = {
    "siglip_b16": "small-siglip",
    "siglip_l16": "small-siglip",
    "clip_b16": "small-clip",
    "clip_b32": "small-clip",
    "smolvlm_256m": "small-vlm",
}
"""Names for `load_model`; small-vlm is made on the spot, see `ttm_jax.small.vlm`."""


def on_the_world(preset: Preset) -> TTMConfig:
    """The preset's settings for a small model: its kind of run, with rates and sizes that fit.

    tau_1 comes from the coverage rule, because the logits of the small models have another scale.
    """
    shape, paper = find_benchmark(preset.dataset).shape, preset.ttm
    small = small_config(shape, paper.matching)
    return replace(
        small,
        tau_unit=paper.tau_unit,
        schedule=paper.schedule,
        augment=paper.augment,
        keep_opt_state=paper.keep_opt_state,
        iterations=min(paper.iterations, small.iterations),
        batch_groups=min(paper.batch_groups, small.batch_groups),
    )
