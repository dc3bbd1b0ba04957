"""A pool of images or captions through a part of its tower, batch by batch."""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int32

from ttm_jax.scorers.contrastive.pixels import Processor, to_float
from ttm_jax.scorers.contrastive.towers import Towers
from ttm_jax.trained_part import Side
from ttm_jax.training.sharding import round_up, shard_batch
from ttm_jax.training.trainable import Flat

Stage = Literal["first", "rest", "whole"]


def encode_part(
    towers: Towers,
    stage: Stage,
    side: Side,
    params: tuple[Flat, Flat],
    pool: Array,
    ids: Int32[Array, "m length"],
    processor: Processor | None,
    batch_size: int,
    mesh: Mesh,
) -> Float[Array, "n ..."]:
    """The frozen beginning, the rest after it, or both; `params` are trained and frozen leaves."""
    count = pool.shape[0]
    batches = max(1, -(-count // batch_size))
    batch_size = round_up(-(-count // batches), mesh.size)  # the last one full too
    parts = [
        _encode_batch(towers, stage, side, params, pool, ids, processor, start, batch_size, mesh)
        for start in range(0, count, batch_size)
    ]
    return jnp.concatenate(parts)[:count]


@partial(jax.jit, static_argnames=("towers", "stage", "side", "processor", "batch_size", "mesh"))
def _encode_batch(
    towers: Towers,
    stage: Stage,
    side: Side,
    params: tuple[Flat, Flat],
    pool: Array,
    ids: Int32[Array, "m length"],
    processor: Processor | None,
    start: int | Array,
    batch_size: int,
    mesh: Mesh,
) -> Float[Array, "b ..."]:
    rows = jnp.minimum(start + jnp.arange(batch_size), pool.shape[0] - 1)
    x = shard_batch(pool[rows], mesh)
    if stage != "rest":
        x = to_float(x, processor) if side == "image" else x
        x = towers.first(side, *params, x)
    if stage == "first":
        return x
    own = shard_batch(ids[rows], mesh) if side == "text" else None
    return towers.rest(side, *params, x, own)


def first_shape(
    towers: Towers, side: Side, params: tuple[Flat, Flat], one: Array | jax.ShapeDtypeStruct
) -> jax.ShapeDtypeStruct:
    """What `first` makes of these inputs (normalised pixels or ids), without computing it."""
    return jax.eval_shape(partial(towers.first, side), *params, one)
