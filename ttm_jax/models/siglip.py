"""SigLIP and SigLIP 2, parameter for parameter as in big_vision's two towers."""

from dataclasses import dataclass

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models import naflex
from ttm_jax.models.transformer import Encoder, MAPHead, PatchEmbedding
from ttm_jax.models.two_tower import Cut, Half, TwoTower, TwoTowerConfig


@dataclass(frozen=True)
class SigLIPConfig(TwoTowerConfig):
    """Model sizes.

    With `max_patches` the model is a NaFlex one: an image has any aspect and up to so many patches,
    and `image_size` is that of the grid of positions, which is resized for each image.
    """

    max_patches: int = 0

    @property
    def image_tokens(self) -> int:
        return self.max_patches or self.patches

    @property
    def image_shape(self) -> tuple[int, ...]:
        if not self.max_patches:
            return super().image_shape
        return self.max_patches, self.patch_size**2 * 3 + 2


class SigLIPVision(nn.Module):
    config: SigLIPConfig

    @nn.compact
    def __call__(
        self, x: Float[Array, "b ..."], cut: Cut = "none", part: Half = "after"
    ) -> Float[Array, "b ..."]:
        """Pixels to embeddings; with a cut, up to it or, from what was computed there, onwards."""
        c, tower = self.config, self.config.vision
        encoder, keys = Encoder(tower, name="Transformer"), None
        if cut == "none" or part == "before":
            if c.max_patches:
                x, shape, keys = naflex.split(x)
            embed = PatchEmbedding(tower.width, c.patch_size, True, tower.compute, name="embedding")
            x = embed(x)
            position = self.param(
                "pos_embedding",
                nn.initializers.normal(tower.width**-0.5),
                (1, c.patches, tower.width),
            )
            if c.max_patches:
                precision = tower.compute.precision
                position = naflex.resized_positions(position, shape, x.shape[1], precision)
            x = x + position.astype(x.dtype)
            if part == "before":
                x = encoder(x, norm=cut == "head", keys=keys)
                return x if keys is None else naflex.with_mask(x, keys)
        elif c.max_patches:
            x, keys = naflex.split_mask(x)
        if cut != "head":
            x = encoder(x, keys=keys)
        return MAPHead(tower, name="MAPHead_0")(x, keys)


class SigLIPText(nn.Module):
    config: SigLIPConfig

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
        dtype = tower.compute.dtype
        encoder = Encoder(tower, name="Encoder_0")
        last = jnp.full(ids.shape[:1], ids.shape[1] - 1, jnp.int32)
        if x is None:
            x = nn.Embed(c.vocab_size, tower.width, dtype=dtype, name="Embed_0")(ids)
            position = self.param(
                "pos_embedding",
                nn.initializers.normal(tower.width**-0.5),
                (1, c.text_length, tower.width),
            )
            x = x + position[:, : ids.shape[1]].astype(x.dtype)
            if part == "before":
                return encoder(x, norm=False) if cut == "blocks" else encoder(x, only=last)[:, 0]
        if cut != "head":
            x = encoder(x, only=last)[:, 0]
        head = nn.Dense(c.embed_dim, dtype=dtype, precision=tower.compute.precision, name="head")
        return head(x)


class SigLIP(TwoTower):
    """Both towers, temperature and bias."""

    config: SigLIPConfig

    def setup(self) -> None:
        self.img = SigLIPVision(self.config)
        self.txt = SigLIPText(self.config)
        # Initial values from the SigLIP paper: temperature 10, bias -10.
        self.t = self.param("t", nn.initializers.constant(jnp.log(10.0)), (1,))
        self.b = self.param("b", nn.initializers.constant(-10.0), (1,))
