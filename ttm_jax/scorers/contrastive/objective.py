"""The loss of a batch of image-caption pairs and its gradient, whole or in chunks; pure."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ttm_jax.scorers.contrastive.crops import CropPool, crop, draw_offsets
from ttm_jax.scorers.contrastive.pixels import Processor, to_float
from ttm_jax.scorers.contrastive.towers import Towers
from ttm_jax.training import sharding
from ttm_jax.training.losses import CONTRASTIVE
from ttm_jax.training.task import Examples
from ttm_jax.training.trainable import Flat


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pools:
    """Distinct images and captions on the device; with `large`, training takes crops of that.

    `first_images` and `first_texts` are what the frozen beginning of each tower made of them, where
    that is kept. A pytree, so jax may put placeholders in the place of arrays: the shapes are
    comments.
    """

    pixels: Any  # [n, S, S, 3], uint8 or normalised float32
    tokens: Any  # [m, length], int32
    large: CropPool | None = None  # of the same n pictures
    first_images: Any = None  # [n, ...]
    first_texts: Any = None  # [m, ...]


@dataclass(frozen=True)
class ContrastiveObjective:
    """What is computed, without parameters and data: equal objectives share one compilation.

    With `chunk` > 0 the activations of that many pairs live at once, not more.
    """

    towers: Towers
    processor: Processor | None
    mesh: Mesh
    chunk: int = 0

    @property
    def image_size(self) -> int:
        return self.towers.module.config.image_size

    def value_and_grad(
        self, trained: Flat, frozen: Flat, data: Pools, batch: Examples, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Flat]:
        image, text, mask = (
            jnp.asarray(x).reshape(-1) for x in (batch.image, batch.text, batch.mask)
        )
        offsets = jnp.zeros((len(mask), 2), jnp.int32)
        if data.large is not None:
            offsets = draw_offsets(key, data.large, image)
        if 0 < self.chunk < len(mask):
            return self._chunked(trained, frozen, data, (image, text, mask, offsets))

        def loss(trained: Flat) -> Float[Array, ""]:
            images, texts = self._embed(trained, frozen, data, image, text, offsets)
            return self._loss(trained, frozen, images, texts, mask)

        return jax.value_and_grad(loss)(trained)

    def _embed(
        self, trained: Flat, frozen: Flat, data: Pools, image: Array, text: Array, offsets: Array
    ) -> tuple[Float[Array, "n e"], Float[Array, "n e"]]:
        towers, place = self.towers, partial(sharding.shard_batch, mesh=self.mesh)
        if data.first_images is not None:
            x = place(data.first_images[image])
        else:
            if data.large is None:
                pixels = data.pixels[image]
            else:
                pixels = crop(data.large, image, offsets, self.image_size)
            x = place(to_float(pixels, self.processor))
            if towers.is_divided("image"):
                x = towers.first("image", trained, frozen, x)
        images = towers.rest("image", trained, frozen, x, None)
        ids = place(data.tokens[text])
        if data.first_texts is not None:
            x = place(data.first_texts[text])
        else:
            x = towers.first("text", trained, frozen, ids) if towers.is_divided("text") else ids
        return images, towers.rest("text", trained, frozen, x, ids)

    def _loss(
        self, trained: Flat, frozen: Flat, images: Array, texts: Array, mask: Bool[Array, "n"]
    ) -> Float[Array, ""]:
        logits = self.towers.logits(trained, frozen, images, texts)
        return CONTRASTIVE[self.towers.family](logits, mask)

    def _chunked(
        self, trained: Flat, frozen: Flat, data: Pools, batch: tuple[Array, Array, Array, Array]
    ) -> tuple[Float[Array, ""], Flat]:
        """The same loss and gradient with the activations of `chunk` pairs at a time.

        Embed all pairs without keeping anything; differentiate the loss with respect to the
        embeddings; then embed each chunk again and pull its part of that gradient back. Chunks
        that hold padding only are not computed at all.
        """
        size = self.chunk
        total = sharding.round_up(len(batch[2]), size)
        image, text, mask, offsets = (
            jnp.pad(x, [(0, total - len(x))] + [(0, 0)] * (x.ndim - 1)) for x in batch
        )
        last = jnp.max(jnp.where(mask, jnp.arange(total), -1))
        used = last // size + 1

        def embed(trained: Flat, start: Array) -> tuple[Array, Array]:
            rows = start * size + jnp.arange(size)
            return self._embed(trained, frozen, data, image[rows], text[rows], offsets[rows])

        def forward(i: Array, store: tuple[Array, Array]) -> tuple[Array, Array]:
            write = partial(jax.lax.dynamic_update_slice_in_dim, start_index=i * size, axis=0)
            images, texts = embed(trained, i)
            return write(store[0], images), write(store[1], texts)

        empty = jnp.zeros((total, self.towers.module.config.embed_dim), jnp.float32)
        images, texts = jax.lax.fori_loop(0, used, forward, (empty, empty))
        loss, (gradient, *by_embedding) = jax.value_and_grad(
            lambda trained, images, texts: self._loss(trained, frozen, images, texts, mask),
            argnums=(0, 1, 2),
        )(trained, images, texts)

        def backward(i: Array, gradient: Flat) -> Flat:
            _, pull = jax.vjp(lambda trained: embed(trained, i), trained)
            cotangent = tuple(jax.lax.dynamic_slice_in_dim(g, i * size, size) for g in by_embedding)
            return jax.tree.map(jnp.add, gradient, pull(cotangent)[0])

        return loss, jax.lax.fori_loop(0, used, backward, gradient)
