"""What an image tower needs for images of any aspect: which patches are there, and where.

An image arrives as [n, d + 2]: n patches of d values, padded, each followed by the numbers of rows
and columns of its image. What a part of a tower hands to the next is [n, width + 1], where the last
value says whether the patch is there.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def split(
    x: Float[Array, "b n d2"],
) -> tuple[Float[Array, "b n d"], Float[Array, "b 2"], Bool[Array, "b n"]]:
    """The patches, the rows and columns of each image, and which patches are no padding."""
    shape = x[:, 0, -2:]
    valid = jnp.arange(x.shape[1], dtype=shape.dtype)[None] < (shape[:, 0] * shape[:, 1])[:, None]
    return x[..., :-2], shape, valid


def with_mask(x: Float[Array, "b n w"], valid: Bool[Array, "b n"]) -> Float[Array, "b n w1"]:
    return jnp.concatenate([x, valid[..., None].astype(x.dtype)], axis=-1)


def split_mask(x: Float[Array, "b n w1"]) -> tuple[Float[Array, "b n w"], Bool[Array, "b n"]]:
    return x[..., :-1], x[..., -1] > 0


def resized_positions(
    grid: Float[Array, "1 m w"], shape: Float[Array, "b 2"], count: int, precision: str
) -> Float[Array, "b n w"]:
    """The square grid of positions, resized to the rows and columns of each image.

    Linear with antialiasing, as in transformers and big_vision. Padding gets some position.
    """
    side = round(grid.shape[1] ** 0.5)
    rows, columns = shape[:, :1], shape[:, 1:]  # [B, 1]
    patch = jnp.arange(count, dtype=jnp.float32)[None]
    row = jnp.floor((patch + 0.5) / columns)  # the half keeps the division away from integers
    down = _weights(row, rows, side)
    across = _weights(patch - row * columns, columns, side)
    both = down[..., :, None] * across[..., None, :]  # [B, N, side, side]
    both = both.reshape(*both.shape[:2], side * side)
    return jnp.einsum("bnm,mw->bnw", both, grid[0].astype(jnp.float32), precision=precision)


def _weights(
    place: Float[Array, "b n"], size: Float[Array, "b 1"], side: int
) -> Float[Array, "b n {side}"]:
    """The share of each of the `side` old points in the point `place` of `size` new ones."""
    scale = side / size
    centre = jnp.minimum(place + 0.5, size) * scale  # padding stays inside
    old = jnp.arange(side, dtype=jnp.float32)[None, None] + 0.5
    distance = jnp.abs(old - centre[..., None]) / jnp.maximum(scale, 1.0)[..., None]
    weights = jnp.maximum(1.0 - distance, 0.0)
    return weights / weights.sum(axis=-1, keepdims=True)
