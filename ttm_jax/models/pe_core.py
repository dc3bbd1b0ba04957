"""Perception Encoder (PE-Core, by Meta): CLIP's text tower, an image tower with rotary positions.

The image tower is CLIP's with two differences: its attention turns queries and keys by the place of
the patch, and a pooling head like SigLIP's makes the embedding from all tokens. Names, sizes and
arithmetic are those of timm's `vit_pe_core_*`, as which OpenCLIP loads the models.
"""

from dataclasses import dataclass, replace

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from ttm_jax.models.clip import CLIPConfig, CLIPText
from ttm_jax.models.rotary import RotaryGrid
from ttm_jax.models.transformer import Encoder, MAPHead, PatchEmbedding, TowerConfig, layer_norm
from ttm_jax.models.two_tower import Cut, Half, TwoTower

_POOL_HEADS, _POOL_MLP = 8, 4  # heads of the pooling, and its MLP's size as a multiple of the width
_NO_GRID = RotaryGrid(0, 0.0)


@dataclass(frozen=True)
class PECoreConfig(CLIPConfig):
    """Model sizes; `timm_model` names the image tower, whose sizes timm keeps under that name."""

    timm_model: str = ""
    class_token: bool = True
    grid: RotaryGrid = _NO_GRID

    @property
    def pool(self) -> TowerConfig:
        """The sizes of the pooling head."""
        width = self.vision.width
        return replace(self.vision, heads=_POOL_HEADS, mlp_dim=_POOL_MLP * width)


class PECoreVision(nn.Module):
    config: PECoreConfig

    @nn.compact
    def __call__(
        self, x: Float[Array, "b ..."], cut: Cut = "none", part: Half = "after"
    ) -> Float[Array, "b ..."]:
        """Pixels to embeddings; with a cut, up to it or, from what was computed there, onwards."""
        c, tower = self.config, self.config.vision
        encoder = Encoder(tower, name="Transformer")
        side = c.image_size // c.patch_size
        turns = c.grid.turns(side, tower.head_dim, unmoved=int(c.class_token))
        if cut == "none" or part == "before":
            x = layer_norm(tower, "pre_norm")(self._tokens(x))
            if part == "before":
                return encoder(x, norm=cut == "head", turns=turns)
        if cut != "head":
            x = encoder(x, turns=turns)
        x = MAPHead(c.pool, name="MAPHead_0")(x)
        dtype, precision = tower.compute.dtype, tower.compute.precision
        return nn.Dense(c.embed_dim, dtype=dtype, precision=precision, name="head")(x)

    def _tokens(self, pixels: Float[Array, "b h w 3"]) -> Float[Array, "b n width"]:
        """The patches, after the class token of the models that have one, with their positions."""
        c, tower = self.config, self.config.vision
        normal = nn.initializers.normal(tower.width**-0.5)
        embed = PatchEmbedding(tower.width, c.patch_size, False, tower.compute, name="embedding")
        x = embed(pixels)
        if c.class_token:
            cls = self.param("cls", normal, (1, 1, tower.width)).astype(x.dtype)
            x = jnp.concatenate([jnp.broadcast_to(cls, (x.shape[0], 1, tower.width)), x], axis=1)
        shape = (1, c.patches + c.class_token, tower.width)
        return x + self.param("pos_embedding", normal, shape).astype(x.dtype)


class PECore(TwoTower):
    """Both towers and the temperature; no bias."""

    config: PECoreConfig

    def setup(self) -> None:
        self.img = PECoreVision(self.config)
        self.txt = CLIPText(self.config)
        self.t = self.param("t", nn.initializers.constant(jnp.log(1 / 0.07)), (1,))
        self.b = None
