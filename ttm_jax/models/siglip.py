"""SigLIP and fixed-resolution SigLIP 2: big_vision's two towers, parameter for parameter.

Logits are cos * exp(t) + b: the similarity in which the paper states its thresholds.
"""

from dataclasses import dataclass

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models.transformer import Encoder, MAPHead, PatchEmbedding, TowerConfig


@dataclass(frozen=True)
class SigLIPConfig:
    """Sizes of a two-tower SigLIP, all of them read from the checkpoint."""

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


class SigLIPVision(nn.Module):
    config: SigLIPConfig

    @nn.compact
    def __call__(self, pixels: Float[Array, "b h w 3"]) -> Float[Array, "b e"]:
        c, tower = self.config, self.config.vision
        embed = PatchEmbedding(tower.width, c.patch_size, True, tower.compute, name="embedding")
        x = embed(pixels)
        position = self.param(
            "pos_embedding", nn.initializers.normal(tower.width**-0.5), (1, c.patches, tower.width)
        )
        x = Encoder(tower, name="Transformer")(x + position.astype(x.dtype))
        return MAPHead(tower, name="MAPHead_0")(x)


class SigLIPText(nn.Module):
    config: SigLIPConfig

    @nn.compact
    def __call__(self, ids: Int[Array, "b length"]) -> Float[Array, "b e"]:
        c, tower = self.config, self.config.text
        dtype = tower.compute.dtype
        x = nn.Embed(c.vocab_size, tower.width, dtype=dtype, name="Embed_0")(ids)
        position = self.param(
            "pos_embedding",
            nn.initializers.normal(tower.width**-0.5),
            (1, c.text_length, tower.width),
        )
        x = x + position[:, : ids.shape[1]].astype(x.dtype)
        last = jnp.full(ids.shape[:1], ids.shape[1] - 1, jnp.int32)
        x = Encoder(tower, name="Encoder_0")(x, only=last)[:, 0]
        head = nn.Dense(c.embed_dim, dtype=dtype, precision=tower.compute.precision, name="head")
        return head(x)


class SigLIP(nn.Module):
    """Both towers; embeddings come out normalised, in float32."""

    config: SigLIPConfig

    def setup(self) -> None:
        self.img = SigLIPVision(self.config)
        self.txt = SigLIPText(self.config)
        # The values of the SigLIP paper's initialisation: temperature 10, bias -10.
        self.t = self.param("t", nn.initializers.constant(jnp.log(10.0)), (1,))
        self.b = self.param("b", nn.initializers.constant(-10.0), (1,))

    def encode_image(self, pixels: Float[Array, "b h w 3"]) -> Float[Array, "b e"]:
        return unit(self.img(pixels))

    def encode_text(self, ids: Int[Array, "b length"]) -> Float[Array, "b e"]:
        return unit(self.txt(ids))

    def __call__(
        self, pixels: Float[Array, "n h w 3"], ids: Int[Array, "m length"]
    ) -> Float[Array, "n m"]:
        return self.logits(self.encode_image(pixels), self.encode_text(ids))

    def logits(self, image: Float[Array, "n e"], text: Float[Array, "m e"]) -> Float[Array, "n m"]:
        cosine = jnp.einsum("ne,me->nm", image, text, precision=self.config.text.compute.precision)
        return cosine * jnp.exp(self.t)[None] + self.b[None]


def unit(x: Float[Array, "b e"]) -> Float[Array, "b e"]:
    """Length 1, in float32 whatever the towers computed in."""
    x = x.astype(jnp.float32)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)
