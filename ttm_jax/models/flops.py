"""Operations of a two-tower model, counted from its sizes: matrix products only."""

from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.pe_core import PECoreConfig
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.models.two_tower import TwoTowerConfig


def forward_flops(config: TwoTowerConfig) -> tuple[int, int]:
    """To embed one image, and one caption of full length."""
    vision, text = config.vision, config.text
    projection = 2 * vision.width * config.embed_dim
    image = 2 * config.image_tokens * 3 * config.patch_size**2 * vision.width
    if isinstance(config, PECoreConfig):
        tokens = config.image_tokens + config.class_token
        image += tower_flops(vision, tokens) + _pooling_flops(config.pool, tokens) + projection
    elif isinstance(config, CLIPConfig):
        image += tower_flops(vision, config.image_tokens + 1, one_token=True) + projection
    else:
        image += tower_flops(vision, config.image_tokens)
        image += _pooling_flops(vision, config.image_tokens)
    caption = tower_flops(text, config.text_length, one_token=True)
    return image, caption + 2 * text.width * config.embed_dim


def tower_flops(tower: TowerConfig, tokens: int, *, one_token: bool = False) -> int:
    """Of one example through the blocks: four projections, attention, and two dense layers.

    With `one_token`, the last block makes the output of one token only, which is all that is read.
    """
    if not tower.depth:
        return 0
    width, mlp = tower.width, 2 * tower.width * tower.mlp_dim
    block = 2 * tokens * (4 * width**2 + mlp) + 4 * tokens**2 * width
    last = 2 * tokens * 2 * width**2 + 2 * (2 * width**2 + mlp) + 4 * tokens * width
    return (tower.depth - 1) * block + (last if one_token else block)


def step_flops(config: TwoTowerConfig, pairs: int) -> int:
    """Of a training step: forward, and twice that for the gradients. Nothing is recomputed."""
    return 3 * (pairs * sum(forward_flops(config)) + 2 * pairs**2 * config.embed_dim)


def _pooling_flops(tower: TowerConfig, tokens: int) -> int:
    """SigLIP's head: one query over all tokens, then an MLP on one."""
    projections = 2 * (2 * tokens + 2) * tower.width**2
    return projections + 4 * tokens * tower.width + 4 * tower.width * tower.mlp_dim
