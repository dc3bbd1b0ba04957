"""Softmax attention on [B, H, N, d] operands.

The layout and the order of operations are chosen for XLA on CPU and cost nothing on accelerators:
see benchmarks/README.md.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def attend(
    query: Float[Array, "b h q d"],
    key: Float[Array, "b h n d"],
    value: Float[Array, "b h n d"],
    *,
    causal: bool = False,
    positions: Int[Array, "b q"] | None = None,
    keys: Bool[Array, "b n"] | None = None,
    precision: str | None = None,
) -> Float[Array, "b h q d"]:
    """softmax(q k^T / sqrt(d)) v. A causal row attends to keys up to its position (0, ...).

    With `keys`, no row attends to a key that is False there; each example has some that are True.
    """
    scale = query.shape[-1] ** -0.5
    logits = jnp.einsum("bhqd,bhnd->bhqn", query * scale, key, precision=precision)
    if causal:
        logits = jnp.where(_visible(positions, *logits.shape[2:]), logits, -jnp.inf)
    if keys is not None:
        logits = jnp.where(keys[:, None, None], logits, -jnp.inf)
    top = jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
    weights = jnp.exp((logits - top).astype(jnp.float32))
    total = weights.sum(axis=-1, keepdims=True)
    y = jnp.einsum("bhqn,bhnd->bhqd", weights.astype(value.dtype), value, precision=precision)
    # Dividing after the second product touches d values per row instead of n.
    return (y.astype(jnp.float32) / total).astype(value.dtype)


def _visible(positions: Int[Array, "b q"] | None, rows: int, columns: int) -> Array:
    """Mask of the keys at or before each row's position. [B or 1, 1, q, n]"""
    row = jnp.arange(rows)[None] if positions is None else positions
    return row[:, None, :, None] >= jnp.arange(columns)[None, None, None, :]
