"""The loss on the answers of a batch of questions and its gradient, whole or in chunks."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray

from ttm_jax.scorers.vqa.inputs import Pools
from ttm_jax.scorers.vqa.scoring import VQA
from ttm_jax.training import sharding
from ttm_jax.training.task import Examples
from ttm_jax.training.trainable import Flat, variables


@dataclass(frozen=True)
class VQAObjective:
    """Cross-entropy of the answer's first token: "Yes" for matched pairs, "No" for the others.

    The pairs of a unit are ordered by image, with `questions` pairs per image, so that an image is
    encoded once for all of them. With `chunk` > 0, the activations of at most that many images are
    in memory at once.
    """

    vqa: VQA
    questions: int
    chunk: int = 0

    def value_and_grad(
        self, trained: Flat, frozen: Flat, data: Pools, batch: Examples, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Flat]:
        image, text, label, mask = (
            jnp.asarray(x).reshape(-1, self.questions)
            for x in (batch.image, batch.text, batch.label, batch.mask)
        )
        rows = (image[:, 0], text, label, mask)
        count = jnp.maximum(mask.sum(), 1).astype(jnp.float32)
        if 0 < self.chunk < len(mask):
            total, gradient = self._chunked(trained, frozen, data, rows)
        else:
            total, gradient = jax.value_and_grad(self.total)(trained, frozen, data, rows)
        return total / count, jax.tree.map(lambda g: g / count.astype(g.dtype), gradient)

    def total(
        self,
        trained: Flat,
        frozen: Flat,
        data: Pools,
        rows: tuple[Int32[Array, "n"], Int32[Array, "n c"], Bool[Array, "n c"], Bool[Array, "n c"]],
    ) -> Float[Array, ""]:
        """The sum over the pairs, so that parts of a batch add up to the whole."""
        image, text, label, mask = rows
        state = variables(trained, frozen)
        tiles, length = data.tile_index.shape[1], data.prefix.shape[1]
        cache = self.vqa.read_images(state, data, image, tiles, length)
        logits = self.vqa.logits(state, data, cache, image, text, data.question.shape[1])
        yes, no = self.vqa.answers
        log_total = jax.nn.logsumexp(logits, axis=-1)
        right = jnp.where(label, logits[..., yes], logits[..., no])
        return jnp.where(mask, log_total - right, 0.0).sum()

    def _chunked(
        self, trained: Flat, frozen: Flat, data: Pools, rows: tuple[Array, ...]
    ) -> tuple[Float[Array, ""], Flat]:
        """Process chunks sequentially; chunks that contain only padding are skipped."""
        size = self.chunk
        whole = sharding.round_up(len(rows[0]), size)
        padded = [jnp.pad(x, [(0, whole - len(x))] + [(0, 0)] * (x.ndim - 1)) for x in rows]
        used = jnp.max(jnp.where(padded[3].any(axis=1), jnp.arange(whole), -1)) // size + 1

        def add(i: Array, so_far: tuple[Array, Flat]) -> tuple[Array, Flat]:
            part = tuple(jax.lax.dynamic_slice_in_dim(x, i * size, size) for x in padded)
            more = jax.value_and_grad(self.total)(trained, frozen, data, part)
            return jax.tree.map(jnp.add, so_far, more)

        zero = (jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, trained))
        return jax.lax.fori_loop(0, used, add, zero)
