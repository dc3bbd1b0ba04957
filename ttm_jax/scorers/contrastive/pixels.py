"""From the bytes of images to what the image tower takes, on the device."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from ttm_jax.inputs.naflex import SHAPE_BYTES, NaflexProcessor, patches_of
from ttm_jax.inputs.preprocess import ImageProcessor, normalise

Processor = ImageProcessor | NaflexProcessor


def to_float(pixels: Array, processor: Processor | None) -> Float32[Array, "n ..."]:
    """Normalise uint8; float32 comes normalised. NaFlex's patches keep the shapes behind them."""
    if pixels.dtype != jnp.uint8:
        return pixels
    mean, std = ((0.5,) * 3, (0.5,) * 3) if processor is None else (processor.mean, processor.std)
    if pixels.ndim == 4:
        return normalise(pixels, mean, std)
    patches = normalise(patches_of(pixels), mean, std).reshape(*pixels.shape[:2], -1)
    high_and_low = pixels[..., -SHAPE_BYTES:].astype(jnp.float32).reshape(*pixels.shape[:2], 2, 2)
    shapes = (high_and_low * np.array([[[[256.0, 1.0]]]], np.float32)).sum(axis=-1)
    return jnp.concatenate([patches, shapes], axis=-1)
