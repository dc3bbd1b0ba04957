"""What SigLIP and CLIP share: sizes, unit-norm embeddings, and logits from cosine similarity."""

from dataclasses import dataclass

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models.transformer import TowerConfig


@dataclass(frozen=True)
class TwoTowerConfig:
    """Sizes of a two-tower model, all read from the checkpoint."""

    image_size: int
    patch_size: int
    vision: TowerConfig
    text: TowerConfig
    vocab_size: int
    text_length: int
    embed_dim: int

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2


class TwoTower(nn.Module):
    """Base of both families, which set up `img`, `txt`, log scale `t` and bias `b` (or None).

    Logits are cos * exp(t) (+ b), the similarity in which the paper states its thresholds.
    """

    config: TwoTowerConfig

    def encode_image(self, pixels: Float[Array, "n h w 3"]) -> Float[Array, "n e"]:
        return unit(self.img(pixels))

    def encode_text(self, ids: Int[Array, "m length"]) -> Float[Array, "m e"]:
        return unit(self.txt(ids))

    def logits(self, image: Float[Array, "n e"], text: Float[Array, "m e"]) -> Float[Array, "n m"]:
        cosine = jnp.einsum("ne,me->nm", image, text, precision=self.config.text.compute.precision)
        scaled = cosine * jnp.exp(self.t)[None]
        return scaled if self.b is None else scaled + self.b[None]

    def __call__(
        self, pixels: Float[Array, "n h w 3"], ids: Int[Array, "m length"]
    ) -> Float[Array, "n m"]:
        return self.logits(self.encode_image(pixels), self.encode_text(ids))


def unit(x: Float[Array, "n e"]) -> Float[Array, "n e"]:
    """Normalise to length 1, in float32 whatever the towers' compute dtype."""
    x = x.astype(jnp.float32)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)
