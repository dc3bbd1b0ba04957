"""The models' own in-batch contrastive losses, masked so that padding changes nothing.

`logits[i, j]` is image i against caption j; pair i is (image i, caption i). A masked pair is
neither a row, nor a column, nor part of the mean.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def sigmoid_loss(logits: Float[Array, "n n"], mask: Bool[Array, "n"]) -> Float[Array, ""]:
    """SigLIP: for each row the sum over columns of -log sigmoid(+-logit), then the mean of rows."""
    sign = 2.0 * jnp.eye(logits.shape[0], dtype=logits.dtype) - 1.0
    losses = -jax.nn.log_sigmoid(sign * logits)
    both = mask[:, None] & mask[None, :]
    return jnp.where(both, losses, 0.0).sum() / _count(mask, logits.dtype)


def softmax_loss(logits: Float[Array, "n n"], mask: Bool[Array, "n"]) -> Float[Array, ""]:
    """CLIP: the mean of the two cross-entropies, over captions for images and the reverse."""
    positive = jnp.diagonal(logits)
    # A large negative number rather than -inf: a fully masked row must not give NaN gradients.
    lowest = jnp.finfo(logits.dtype).min
    over_texts = jax.nn.logsumexp(jnp.where(mask[None, :], logits, lowest), axis=1)
    over_images = jax.nn.logsumexp(jnp.where(mask[:, None], logits, lowest), axis=0)
    losses = (over_texts + over_images) / 2 - positive
    return jnp.where(mask, losses, 0.0).sum() / _count(mask, logits.dtype)


def _count(mask: Bool[Array, "n"], dtype: jnp.dtype) -> Float[Array, ""]:
    return jnp.maximum(mask.sum(), 1).astype(dtype)


CONTRASTIVE = {"siglip": sigmoid_loss, "clip": softmax_loss}
