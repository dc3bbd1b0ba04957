"""Model folders with random weights, in the layout of the hub."""

from pathlib import Path

import jax
import numpy as np
from tiny import random_params

from ttm_jax.data import world
from ttm_jax.small.pretrain import make_module, write_folder_files
from ttm_jax.small.recipe import Recipe
from ttm_jax.weights import huggingface


def make_folder(path: Path, family: str) -> Path:
    """A checkpoint with random weights and the files of a hub checkpoint."""
    recipe = Recipe(family, width=32, depth=2, heads=2, image_size=16, text_length=20)
    words = world.training_captions(0, 300)
    tokenizer = write_folder_files(path / "files", recipe, words)
    module = make_module(recipe, tokenizer)
    sample = np.zeros((1, 16, 16, 3), np.float32), np.zeros((1, 20), np.int32)
    shapes = jax.eval_shape(module.init, jax.random.key(0), *sample)["params"]
    params = random_params(shapes, 0)
    huggingface.save(path / "model", module.config, params, extra_files_from=path / "files")
    return path / "model"
