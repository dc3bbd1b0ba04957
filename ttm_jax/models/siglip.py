"""SigLIP and fixed-resolution SigLIP 2, parameter for parameter as in big_vision's two towers."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.models.transformer import Encoder, MAPHead, PatchEmbedding
from ttm_jax.models.two_tower import Cut, Half, TwoTower, TwoTowerConfig


class SigLIPConfig(TwoTowerConfig):
    """Model sizes; SigLIP needs nothing beyond the common ones."""


class SigLIPVision(nn.Module):
    config: SigLIPConfig

    @nn.compact
    def __call__(
        self, x: Float[Array, "b ..."], cut: Cut = "none", part: Half = "after"
    ) -> Float[Array, "b ..."]:
        """Pixels to embeddings; with a cut, up to it or, from what was computed there, onwards."""
        c, tower = self.config, self.config.vision
        encoder = Encoder(tower, name="Transformer")
        if cut == "none" or part == "before":
            embed = PatchEmbedding(tower.width, c.patch_size, True, tower.compute, name="embedding")
            x = embed(x)
            position = self.param(
                "pos_embedding",
                nn.initializers.normal(tower.width**-0.5),
                (1, c.patches, tower.width),
            )
            x = x + position.astype(x.dtype)
            if part == "before":
                return encoder(x, norm=cut == "head")
        if cut != "head":
            x = encoder(x)
        return MAPHead(tower, name="MAPHead_0")(x)


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
