"""Models and datasets small enough to compile in seconds."""

from dataclasses import replace
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.models.clip import CLIP, CLIPConfig
from ttm_jax.models.siglip import SigLIP, SigLIPConfig
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.scorers.contrastive.model import ContrastiveModel

SIZE, LENGTH, VOCABULARY, EOS = 16, 8, 64, 63
CONFIG = TTMConfig(lr=1e-3, iterations=3, epochs=2, batch_groups=4, coverage=0.3)


def tiny_model(family: Literal["siglip", "clip"] = "siglip", seed: int = 0) -> ContrastiveModel:
    tower = TowerConfig(width=32, depth=2, heads=2, mlp_dim=64)
    if family == "siglip":
        config = SigLIPConfig(SIZE, 8, tower, tower, VOCABULARY, LENGTH, 32)
        module: SigLIP | CLIP = SigLIP(config)
    else:
        tower = replace(tower, activation="quick_gelu", norm_eps=1e-5)
        text = replace(tower, causal=True)
        config = CLIPConfig(SIZE, 8, tower, text, VOCABULARY, LENGTH, 32, EOS)
        module = CLIP(config)
    pixels, ids = jnp.zeros((1, SIZE, SIZE, 3)), jnp.zeros((1, LENGTH), jnp.int32)
    shapes = jax.eval_shape(module.init, jax.random.key(0), pixels, ids)["params"]
    return ContrastiveModel(family, config, random_params(shapes, seed))


def random_params(shapes, seed: int):
    """Random parameters without compiling an initialiser: norms near one, unit-gain matrices."""
    rng = np.random.default_rng(seed)

    def leaf(path, x):
        name = jax.tree_util.keystr(path)
        noise = rng.normal(size=x.shape).astype(np.float32)
        if "scale" in name:
            return 1 + 0.1 * noise
        if name in ("['t']", "['b']"):
            return np.full(x.shape, 2.0 if "t" in name else -3.0, np.float32)
        fan_in = 32 if x.ndim > 1 else 100
        return noise * np.float32(fan_in**-0.5)

    return jax.tree_util.tree_map_with_path(leaf, shapes)


def tiny_dataset(
    groups: int = 9, images: int = 2, texts: int = 2, *, seed: int = 0, truth: bool = True
) -> GroupedDataset:
    """Random pixels and tokens; each caption ends with an eos, as CLIP expects."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (groups, images, SIZE, SIZE, 3), dtype=np.uint8)
    tokens = rng.integers(3, EOS, (groups, texts, LENGTH)).astype(np.int32)
    tokens[:, :, -2] = EOS
    tokens[:, :, -1] = 0
    labels = np.full((groups, images), -1, np.int32)
    labels[:, : min(images, texts)] = np.arange(min(images, texts))
    return GroupedDataset.from_arrays(pixels, tokens, labels if truth else None)
