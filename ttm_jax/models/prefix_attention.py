"""Attention of several continuations to a shared prefix, without repeating its keys and values."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def attend_after_prefix(
    query: Float[Array, "bc k rn d"],
    own: tuple[Float[Array, "bc k n d"], Float[Array, "bc k n d"]],
    prefix: tuple[Float[Array, "b k p d"], Float[Array, "b k p d"], Int[Array, "b"]],
    precision: str | None = None,
) -> Float[Array, "bc k rn d"]:
    """One softmax over the first `length` keys of the prefix and, causally, over the own keys.

    Continuations are ordered by prefix: rows c*i to c*i + c - 1 continue prefix i. A row of `query`
    is one of r query heads at one of n positions, with the heads as the outer axis.
    """
    own_key, own_value = own
    key, value, length = prefix
    rows, _, _, d = query.shape
    n, count = own_key.shape[2], key.shape[0]
    query = query * d**-0.5
    # All continuations of a prefix form the rows of a single product with its keys.
    together = _by_prefix(query, count)
    past = jnp.einsum("bkqd,bkpd->bkqp", together, key, precision=precision)
    seen = jnp.arange(key.shape[2])[None] < length[:, None]
    past = jnp.where(seen[:, None, None, :], past, -jnp.inf)
    past = _by_row(past, rows)
    now = jnp.einsum("bkqd,bknd->bkqn", query, own_key, precision=precision)
    position = jnp.arange(query.shape[2]) % n
    causal = position[:, None] >= jnp.arange(n)[None]
    now = jnp.where(causal[None, None], now, -jnp.inf)
    top = jnp.maximum(past.max(axis=-1, keepdims=True), now.max(axis=-1, keepdims=True))
    top = jax.lax.stop_gradient(top)
    past, now = (jnp.exp((x - top).astype(jnp.float32)) for x in (past, now))
    total = past.sum(axis=-1, keepdims=True) + now.sum(axis=-1, keepdims=True)
    weights = _by_prefix(past.astype(value.dtype), count)
    from_past = jnp.einsum("bkqp,bkpd->bkqd", weights, value, precision=precision)
    y = _by_row(from_past, rows) + jnp.einsum(
        "bkqn,bknd->bkqd", now.astype(value.dtype), own_value, precision=precision
    )
    return (y.astype(jnp.float32) / total).astype(value.dtype)


def _by_prefix(x: Float[Array, "bc k q z"], count: int) -> Float[Array, "b k cq z"]:
    rows, heads, q, z = x.shape
    each = rows // count
    return x.reshape(count, each, heads, q, z).swapaxes(1, 2).reshape(count, heads, each * q, z)


def _by_row(x: Float[Array, "b k cq z"], rows: int) -> Float[Array, "bc k q z"]:
    count, heads, q, z = x.shape
    each = rows // count
    return x.reshape(count, heads, each, q // each, z).swapaxes(1, 2).reshape(rows, heads, -1, z)
