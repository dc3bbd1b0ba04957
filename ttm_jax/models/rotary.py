"""Rotary positions of image patches: pairs of neighbouring values are turned by their place.

A head of d values has d / 2 pairs; the first half of them turns with the column of the patch, the
second with its row, each pair at a frequency of its own.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_BASE = 10_000.0
Turns = tuple[Float[np.ndarray, "n pairs"], Float[np.ndarray, "n pairs"]]
"""Cosine and sine of the angle by which each pair of each position is turned."""


@dataclass(frozen=True)
class RotaryGrid:
    """Where patches are: `offset` + 0, 1, 2, ..., scaled so that a side is `side` patches long."""

    side: int
    offset: float

    def turns(self, side: int, head_dim: int, unmoved: int) -> Turns:
        """For side x side patches in row order, after `unmoved` tokens that have no place."""
        bands = head_dim // 4
        frequency = _BASE ** -(np.arange(bands, dtype=np.float32) / bands)
        place = (np.arange(side, dtype=np.float32) + np.float32(self.offset)) / side * self.side
        row, column = np.meshgrid(place, place, indexing="ij")
        angles = [(axis.reshape(-1, 1) * frequency) for axis in (column, row)]
        angle = np.concatenate([np.zeros((unmoved, 2 * bands)), np.concatenate(angles, axis=1)])
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def turn(x: Float[Array, "b h n d"], turns: Turns) -> Float[Array, "b h n d"]:
    """Turn every pair of neighbouring values, computed in float32."""
    cos, sin = (t[None, None] for t in turns)
    pairs = x.astype(jnp.float32).reshape(*x.shape[:-1], -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return (
        jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape).astype(x.dtype)
    )
