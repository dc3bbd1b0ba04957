"""CLIP, with big_vision's style of parameter names."""

from dataclasses import dataclass

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models.siglip import unit
from ttm_jax.models.transformer import Encoder, PatchEmbedding, TowerConfig, layer_norm

LEGACY_EOS = 2  # old configs say 2 where they mean "the largest id of the caption"


@dataclass(frozen=True)
class CLIPConfig:
    """Sizes of a CLIP, all of them read from the checkpoint."""

    image_size: int
    patch_size: int
    vision: TowerConfig
    text: TowerConfig
    vocab_size: int
    text_length: int
    embed_dim: int
    eos_token_id: int

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2


class CLIPVision(nn.Module):
    config: CLIPConfig

    @nn.compact
    def __call__(self, pixels: Float[Array, "b h w 3"]) -> Float[Array, "b e"]:
        c, tower = self.config, self.config.vision
        normal = nn.initializers.normal(tower.width**-0.5)
        embed = PatchEmbedding(tower.width, c.patch_size, False, tower.compute, name="embedding")
        x = embed(pixels)
        cls = self.param("cls", normal, (1, 1, tower.width)).astype(x.dtype)
        x = jnp.concatenate([jnp.broadcast_to(cls, (x.shape[0], 1, tower.width)), x], axis=1)
        position = self.param("pos_embedding", normal, (1, c.patches + 1, tower.width))
        x = layer_norm(tower, "pre_norm")(x + position.astype(x.dtype))
        first = jnp.zeros(x.shape[:1], jnp.int32)
        x = Encoder(tower, name="Transformer")(x, only=first)[:, 0]
        return _projection(c, tower)(x)


class CLIPText(nn.Module):
    config: CLIPConfig

    @nn.compact
    def __call__(self, ids: Int[Array, "b length"]) -> Float[Array, "b e"]:
        c, tower = self.config, self.config.text
        x = nn.Embed(c.vocab_size, tower.width, dtype=tower.compute.dtype, name="Embed_0")(ids)
        position = self.param(
            "pos_embedding", nn.initializers.normal(0.01), (1, c.text_length, tower.width)
        )
        x = x + position[:, : ids.shape[1]].astype(x.dtype)
        x = Encoder(tower, name="Encoder_0")(x, only=eos_position(ids, c.eos_token_id))[:, 0]
        return _projection(c, tower)(x)


def eos_position(ids: Int[Array, "b length"], eos_token_id: int) -> Int[Array, "b"]:
    """Where a caption ends: the first eos, or with an old config the first largest id."""
    key = ids if eos_token_id == LEGACY_EOS else (ids == eos_token_id).astype(jnp.int32)
    return jnp.argmax(key, axis=-1).astype(jnp.int32)


def _projection(config: CLIPConfig, tower: TowerConfig) -> nn.Dense:
    return nn.Dense(
        config.embed_dim,
        use_bias=False,
        dtype=tower.compute.dtype,
        precision=tower.compute.precision,
        name="head",
    )


class CLIP(nn.Module):
    """Both towers; embeddings come out normalised, in float32."""

    config: CLIPConfig

    def setup(self) -> None:
        self.img = CLIPVision(self.config)
        self.txt = CLIPText(self.config)
        self.t = self.param("t", nn.initializers.constant(jnp.log(1 / 0.07)), (1,))

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
        return cosine * jnp.exp(self.t)[None]
