"""What SigLIP and CLIP share: sizes, unit-norm embeddings, and logits from cosine similarity."""

from dataclasses import dataclass
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models.transformer import TowerConfig

Cut = Literal["none", "blocks", "head"]
"""Where a tower is divided: between blocks (a module then has some of them), before its head."""
Half = Literal["before", "after"]


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

    @property
    def image_tokens(self) -> int:
        """The most patches that an image has."""
        return self.patches

    @property
    def image_shape(self) -> tuple[int, ...]:
        """The shape of an image as the image tower takes it."""
        return self.image_size, self.image_size, 3


class TwoTower(nn.Module):
    """Base of both families, which set up `img`, `txt`, log scale `t` and bias `b` (or None).

    Logits are cos * exp(t) (+ b), the similarity in which the paper states its thresholds.
    """

    config: TwoTowerConfig

    def encode_image(self, pixels: Float[Array, "n ..."]) -> Float[Array, "n e"]:
        return unit(self.img(pixels))

    def encode_text(self, ids: Int[Array, "m length"]) -> Float[Array, "m e"]:
        return unit(self.txt(ids))

    def image_until(self, pixels: Float[Array, "n ..."], cut: Cut) -> Float[Array, "n ..."]:
        """What the part of the image tower before the cut computes."""
        return self.img(pixels, cut=cut, part="before")

    def text_until(self, ids: Int[Array, "m length"], cut: Cut) -> Float[Array, "m ..."]:
        """What the part of the text tower before the cut computes."""
        return self.txt(ids, cut=cut, part="before")

    def image_from(self, hidden: Float[Array, "n ..."], cut: Cut) -> Float[Array, "n e"]:
        """The rest of the image tower."""
        return unit(self.img(hidden, cut=cut, part="after"))

    def text_from(
        self, hidden: Float[Array, "m ..."], ids: Int[Array, "m length"], cut: Cut
    ) -> Float[Array, "m e"]:
        """The rest of the text tower; the ids tell it where captions end."""
        return unit(self.txt(ids, hidden, cut=cut, part="after"))

    def logits(self, image: Float[Array, "n e"], text: Float[Array, "m e"]) -> Float[Array, "n m"]:
        cosine = jnp.einsum("ne,me->nm", image, text, precision=self.config.text.compute.precision)
        scaled = cosine * jnp.exp(self.t)[None]
        return scaled if self.b is None else scaled + self.b[None]

    def __call__(
        self, pixels: Float[Array, "n ..."], ids: Int[Array, "m length"]
    ) -> Float[Array, "n m"]:
        return self.logits(self.encode_image(pixels), self.encode_text(ids))


def unit(x: Float[Array, "n e"]) -> Float[Array, "n e"]:
    """Normalise to length 1, in float32 whatever the towers' compute dtype."""
    x = x.astype(jnp.float32)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)
