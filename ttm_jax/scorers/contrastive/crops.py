"""Random crops for training, cut on the device from pictures that are kept whole.

The paper resizes by 1.1 and crops at random: SigLIP's pictures are squashed to S' x S' with
S' = int(1.1 S); CLIP's keep their aspect, with the shorter side at S'. The S x S crop is uniform
over the whole picture: 640 x 480 becomes 328 x 246, with 105 horizontal and 23 vertical offsets.

The pictures have many shapes and the compiled step has one, so they are stored as tiles of one
size, S' high, with the longer side of each picture along the tile (portrait pictures are
transposed). A picture that is longer than a tile takes several; neighbours share S - 1 columns, so
that every crop lies inside one tile. So a panorama needs more tiles instead of wider ones for all.
The width that needs the least memory is chosen, and that is never more than twice the pictures' own
pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Integer, PRNGKeyArray, UInt8

AUGMENT_SCALE = 1.1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CropPool:
    """Pictures to crop from. A pytree, so the shapes are comments."""

    tiles: Any  # [tile, S', width, 3], uint8
    first: Any  # [picture], int32: its first tile
    choices: Any  # [picture, 2], int32: how many vertical and horizontal offsets there are
    turned: Any  # [picture], bool: stored with rows and columns exchanged


def large_size(size: int) -> int:
    """S' for S: 224 -> 246, 256 -> 281."""
    return int(size * AUGMENT_SCALE)


def pack(pictures: Sequence[UInt8[np.ndarray, "_ _ 3"]], size: int) -> CropPool:
    """Store pictures whose shorter sides are all S', for crops of `size` x `size`."""
    shapes = np.array([picture.shape[:2] for picture in pictures], np.int32).reshape(-1, 2)
    turned = shapes[:, 0] > shapes[:, 1]
    lengths, height = shapes.max(axis=1), large_size(size)
    if (shapes.min(axis=1) != height).any():
        raise ValueError(f"shorter sides are {set(shapes.min(axis=1).tolist())}, not {height}")
    width = tile_width(lengths, size)
    stride = width - size + 1
    counts = _tile_counts(lengths, width, size)
    first = np.cumsum(counts) - counts
    tiles = np.zeros((int(counts.sum()), height, width, 3), np.uint8)
    for picture, turn, start, count in zip(pictures, turned, first, counts, strict=True):
        lying = picture.swapaxes(0, 1) if turn else picture
        for k in range(count):
            part = lying[:, k * stride : k * stride + width]
            tiles[start + k, :, : part.shape[1]] = part
    return CropPool(tiles, first.astype(np.int32), shapes - size + 1, turned)


def tile_width(lengths: Integer[np.ndarray, "n"], size: int) -> int:
    """The width that needs the fewest bytes: that of one of the pictures, or 2 S'.

    With 2 S' a picture takes at most twice its own length, whatever that is.
    """
    values, times = np.unique(lengths, return_counts=True)
    candidates = sorted({*values.tolist(), 2 * large_size(size)})
    return min(candidates, key=lambda w: w * int(times @ _tile_counts(values, w, size)))


def _tile_counts(
    lengths: Integer[np.ndarray, "n"], width: int, size: int
) -> Integer[np.ndarray, "n"]:
    """Offsets of a picture over offsets of a tile, rounded up."""
    return -(-(lengths - size + 1) // (width - size + 1))


def draw_offsets(
    key: PRNGKeyArray, pool: CropPool, picture: Int32[Array, "n"]
) -> Int32[Array, "n 2"]:
    """The top left corner of a crop of each picture, uniform over all that there are."""
    choices = pool.choices[picture]
    return jax.random.randint(key, choices.shape, 0, choices, jnp.int32)


def crop(
    pool: CropPool, picture: Int32[Array, "n"], offsets: Int32[Array, "n 2"], size: int
) -> UInt8[Array, "n {size} {size} 3"]:
    """The window of each picture at its own (top, left)."""
    stride = pool.tiles.shape[2] - size + 1

    def one(picture: Array, offset: Array) -> Array:
        turned, zero = pool.turned[picture], jnp.zeros((), offset.dtype)
        across, along = jnp.where(turned, offset[::-1], offset)
        start = (pool.first[picture] + along // stride, across, along % stride, zero)
        window = jax.lax.dynamic_slice(pool.tiles, start, (1, size, size, 3))[0]
        return jnp.where(turned, window.swapaxes(0, 1), window)

    return jax.vmap(one)(picture, offsets)
