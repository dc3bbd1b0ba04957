"""Resampling of learned image position embeddings to another image size.

The grid is resampled with the cubic convolution kernel of a = -0.75, half-pixel centres, edges
repeated and no antialiasing. This is what transformers does with `interpolate_pos_encoding=True`,
so both give the same logits. (big_vision resamples linearly with aligned corners.)
"""

from dataclasses import replace
from math import isqrt

import numpy as np
from jaxtyping import Float

from ttm_jax.errors import InputError
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.weights.checkpoint_files import Checkpoint

_A = -0.75


def at_image_size(checkpoint: Checkpoint, image_size: int) -> Checkpoint:
    """The same model for another image size; the text tower is unchanged."""
    config = checkpoint.config
    if image_size < config.patch_size:
        raise InputError(f"image_size {image_size} is smaller than a patch of {config.patch_size}")
    if isinstance(config, SigLIPConfig) and config.max_patches:
        raise InputError(
            f"{checkpoint.source} takes images of any size; image_size cannot be given"
        )
    new = replace(config, image_size=image_size)
    if new.patches == config.patches:  # e.g. 378 and 384 px with patches of 14
        return replace(checkpoint, config=new)
    positions = checkpoint.params["img"]["pos_embedding"][0]
    first = len(positions) - config.patches  # the class token keeps its own position
    grid = resample(positions[first:], isqrt(new.patches))
    positions = np.concatenate([positions[:first], grid])[None]
    params = {**checkpoint.params, "img": {**checkpoint.params["img"], "pos_embedding": positions}}
    return replace(checkpoint, config=new, params=params)


def resample(positions: Float[np.ndarray, "n w"], side: int) -> Float[np.ndarray, "m w"]:
    """Resample a square grid of positions, in row order, to `side` x `side`."""
    old = isqrt(len(positions))
    weights = _cubic_weights(old, side)
    grid = positions.astype(np.float64).reshape(old, old, -1)
    grid = np.einsum("ai,bj,ijw->abw", weights, weights, grid, optimize=True)
    return grid.reshape(side * side, -1).astype(np.float32)


def _cubic_weights(old: int, new: int) -> Float[np.ndarray, "new old"]:
    """The weight of each of the `old` points in each of the `new` points."""
    centre = (np.arange(new) + 0.5) * old / new - 0.5
    base = np.floor(centre).astype(int)
    weights = np.zeros((new, old))
    for tap in range(-1, 3):
        point = base + tap
        amount = _cubic(np.abs(centre - point))
        np.add.at(weights, (np.arange(new), np.clip(point, 0, old - 1)), amount)
    return weights


def _cubic(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    near = ((_A + 2) * x - (_A + 3)) * x * x + 1
    far = ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
