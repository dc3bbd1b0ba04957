"""CLIP (by OpenAI, OpenCLIP, MetaCLIP), with parameter names in big_vision's style."""

from dataclasses import dataclass
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models.transformer import Encoder, PatchEmbedding, TowerConfig, layer_norm
from ttm_jax.models.two_tower import Cut, Half, TwoTower, TwoTowerConfig

Layout = Literal["clip", "metaclip_2", "open_clip"]


@dataclass(frozen=True)
class CLIPConfig(TwoTowerConfig):
    """Model sizes, and where a caption ends.

    `eos_token_id` None means: at its largest id. `layout` is the kind of folder that the model
    comes from and is saved as: the `model_type` of transformers, or "open_clip".
    """

    eos_token_id: int | None
    layout: Layout = "clip"


class CLIPVision(nn.Module):
    config: CLIPConfig

    @nn.compact
    def __call__(
        self, x: Float[Array, "b ..."], cut: Cut = "none", part: Half = "after"
    ) -> Float[Array, "b ..."]:
        """Pixels to embeddings; with a cut, up to it or, from what was computed there, onwards."""
        c, tower = self.config, self.config.vision
        encoder = Encoder(tower, name="Transformer")
        first = jnp.zeros(x.shape[:1], jnp.int32)
        if cut == "none" or part == "before":
            normal = nn.initializers.normal(tower.width**-0.5)
            embed = PatchEmbedding(
                tower.width, c.patch_size, False, tower.compute, name="embedding"
            )
            x = embed(x)
            cls = self.param("cls", normal, (1, 1, tower.width)).astype(x.dtype)
            x = jnp.concatenate([jnp.broadcast_to(cls, (x.shape[0], 1, tower.width)), x], axis=1)
            position = self.param("pos_embedding", normal, (1, c.patches + 1, tower.width))
            x = layer_norm(tower, "pre_norm")(x + position.astype(x.dtype))
            if part == "before":
                return encoder(x, norm=False) if cut == "blocks" else encoder(x, only=first)[:, 0]
        if cut != "head":
            x = encoder(x, only=first)[:, 0]
        return _projection(c, tower)(x)


class CLIPText(nn.Module):
    config: CLIPConfig

    @nn.compact
    def __call__(
        self,
        ids: Int[Array, "b length"],
        x: Float[Array, "b ..."] | None = None,
        cut: Cut = "none",
        part: Half = "after",
    ) -> Float[Array, "b ..."]:
        """Ids to embeddings; with a cut, up to it or, from the `x` computed there, onwards."""
        c, tower = self.config, self.config.text
        encoder, end = Encoder(tower, name="Encoder_0"), eos_position(ids, c.eos_token_id)
        if x is None:
            x = nn.Embed(c.vocab_size, tower.width, dtype=tower.compute.dtype, name="Embed_0")(ids)
            position = self.param(
                "pos_embedding", nn.initializers.normal(0.01), (1, c.text_length, tower.width)
            )
            x = x + position[:, : ids.shape[1]].astype(x.dtype)
            if part == "before":
                return encoder(x, norm=False) if cut == "blocks" else encoder(x, only=end)[:, 0]
        if cut != "head":
            x = encoder(x, only=end)[:, 0]
        return _projection(c, tower)(x)


def eos_position(ids: Int[Array, "b length"], eos_token_id: int | None) -> Int[Array, "b"]:
    """Position of the end of each caption: the first eos, or the first largest id if None."""
    key = ids if eos_token_id is None else (ids == eos_token_id).astype(jnp.int32)
    return jnp.argmax(key, axis=-1).astype(jnp.int32)


def _projection(config: CLIPConfig, tower: TowerConfig) -> nn.Dense:
    return nn.Dense(
        config.embed_dim,
        use_bias=False,
        dtype=tower.compute.dtype,
        precision=tower.compute.precision,
        name="head",
    )


class CLIP(TwoTower):
    """Both towers and the temperature; no bias."""

    config: CLIPConfig

    def setup(self) -> None:
        self.img = CLIPVision(self.config)
        self.txt = CLIPText(self.config)
        self.t = self.param("t", nn.initializers.constant(jnp.log(1 / 0.07)), (1,))
        self.b = None
