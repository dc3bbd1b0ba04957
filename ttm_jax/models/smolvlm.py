"""SmolVLM and SmolVLM2 (Idefics3 models): SigLIP's image tower, a connector and a Llama decoder.

Parameter names follow the other models: `img` (with the connector as its head) and `txt`.
"""

from dataclasses import dataclass, replace
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models.llama import Cache, Decoder, DecoderConfig
from ttm_jax.models.transformer import (
    Compute,
    Encoder,
    Linear,
    PatchEmbedding,
    TowerConfig,
    take_position,
)


@dataclass(frozen=True)
class SmolVLMConfig:
    """Model sizes. An image is split into tiles of `image_size`, with `tile_tokens` tokens each."""

    image_size: int
    patch_size: int
    shuffle: int  # shuffle x shuffle patches become one token
    vision: TowerConfig
    text: DecoderConfig
    image_token_id: int
    model_type: Literal["idefics3", "smolvlm"] = "idefics3"  # as transformers calls it

    @property
    def side(self) -> int:
        return self.image_size // self.patch_size

    @property
    def tile_tokens(self) -> int:
        return (self.side // self.shuffle) ** 2

    def with_compute(self, compute: Compute) -> "SmolVLMConfig":
        return replace(
            self,
            vision=replace(self.vision, compute=compute),
            text=replace(self.text, compute=compute),
        )


class SmolVLMVision(nn.Module):
    """Encodes tiles as token embeddings for the decoder."""

    config: SmolVLMConfig

    @nn.compact
    def __call__(self, pixels: Float[Array, "t h w 3"]) -> Float[Array, "t n width"]:
        c, tower = self.config, self.config.vision
        embed = PatchEmbedding(tower.width, c.patch_size, True, tower.compute, name="embedding")
        x = embed(pixels)
        position = self.param(
            "pos_embedding", nn.initializers.normal(tower.width**-0.5), (1, c.side**2, tower.width)
        )
        # transformers looks positions up by fractions of the side; for whole tiles that is the
        # patch order (exactly so for the published 26, 27 and 32 patches per side).
        x = x + position.astype(x.dtype)
        x = pixel_shuffle(Encoder(tower, name="Transformer")(x), c.shuffle)
        sizes = (tower.width * c.shuffle**2, c.text.width)
        return Linear("bnw,wo->bno", sizes, tower.compute, use_bias=False, name="head")(x)


def pixel_shuffle(x: Float[Array, "t n w"], factor: int) -> Float[Array, "t m v"]:
    """Merge each square of factor x factor neighbouring patches into one token, in row order."""
    t, n, w = x.shape
    side = round(n**0.5)
    small = side // factor
    x = x.reshape(t, small, factor, small, factor, w).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(t, small * small, factor * factor * w)


class SmolVLMText(nn.Module):
    """Token embeddings, the decoder and the language-model head."""

    config: DecoderConfig

    def setup(self) -> None:
        c = self.config
        self.Embed_0 = nn.Embed(c.vocab_size, c.width, dtype=c.compute.dtype)
        self.Decoder_0 = Decoder(c)
        self.head = Linear("bnw,wo->bno", (c.width, c.vocab_size), c.compute, use_bias=False)

    def embed(self, ids: Int[Array, "b n"]) -> Float[Array, "b n w"]:
        return self.Embed_0(ids)

    def logits(self, x: Float[Array, "b n w"]) -> Float[Array, "b n vocabulary"]:
        return self.head(x).astype(jnp.float32)


class SmolVLM(nn.Module):
    config: SmolVLMConfig

    def setup(self) -> None:
        self.img = SmolVLMVision(self.config)
        self.txt = SmolVLMText(self.config.text)

    def encode_tiles(self, pixels: Float[Array, "t h w 3"]) -> Float[Array, "t n width"]:
        return self.img(pixels)

    def prefix(self, features: Float[Array, "b tn width"], ids: Int[Array, "b p"]) -> Cache:
        """Process the shared part of the prompts, which ends with the image; right-padded."""
        return self.txt.Decoder_0.prefix(self._merge(features, ids))

    def answers(
        self,
        cache: Cache,
        prefix_length: Int[Array, "b"],
        ids: Int[Array, "b c n"],
        length: Int[Array, "b c"],
    ) -> Float[Array, "b c vocabulary"]:
        """Logits of the next token after each of c questions per image, at that position only."""
        b, c, n = ids.shape
        start = jnp.repeat(prefix_length, c)
        positions = start[:, None] + jnp.arange(n, dtype=start.dtype)[None]
        x = self.txt.embed(ids.reshape(b * c, n))
        x = self.txt.Decoder_0.after(x, positions, cache, prefix_length)
        last = take_position(x, length.reshape(-1) - 1)
        return self.txt.logits(last).reshape(b, c, -1)

    def __call__(
        self, features: Float[Array, "b tn width"], ids: Int[Array, "b n"]
    ) -> Float[Array, "b n vocabulary"]:
        """Logits at all positions of whole prompts: the reference for the prefix-sharing path."""
        return self.txt.logits(self.txt.Decoder_0(self._merge(features, ids)))

    def at(
        self,
        features: Float[Array, "b tn width"],
        ids: Int[Array, "b n"],
        position: Int[Array, "b"],
    ) -> Float[Array, "b vocabulary"]:
        """Logits at one position of each whole prompt."""
        x = take_position(self.txt.Decoder_0(self._merge(features, ids)), position)
        return self.txt.logits(x)[:, 0]

    def everything(
        self, pixels: Float[Array, "t h w 3"], ids: Int[Array, "b n"]
    ) -> Float[Array, "b n vocabulary"]:
        """From pixels to logits, with one image per prompt; used to initialise the parameters."""
        features = self.encode_tiles(pixels)
        return self(features.reshape(len(ids), -1, features.shape[-1]), ids)

    def _merge(
        self, features: Float[Array, "b tn width"], ids: Int[Array, "b n"]
    ) -> Float[Array, "b n width"]:
        """Token embeddings, with image features in place of the image placeholder tokens."""
        is_image = ids == self.config.image_token_id
        slot = jnp.clip(jnp.cumsum(is_image, axis=1) - 1, 0, features.shape[1] - 1)
        from_image = jnp.take_along_axis(features, slot[:, :, None], axis=1)
        words = self.txt.embed(ids)
        return jnp.where(is_image[:, :, None], from_image.astype(words.dtype), words)
