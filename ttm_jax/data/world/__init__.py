"""A procedural world of images and captions: benchmarks of every shape, and pretraining data.

`make` returns a benchmark, `training_pairs` images with captions. Both are determined by a seed.
"""

from ttm_jax.data.world.benchmark import DISPLAY_SIZE, SPLITS, make
from ttm_jax.data.world.render import render
from ttm_jax.data.world.training import TrainingText, training_captions, training_pairs
from ttm_jax.data.world.variants import VARIANTS, find_variant

__all__ = [
    "DISPLAY_SIZE",
    "SPLITS",
    "VARIANTS",
    "TrainingText",
    "find_variant",
    "make",
    "render",
    "training_captions",
    "training_pairs",
]
