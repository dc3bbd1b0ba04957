"""CLIP or SigLIP bound to a dataset: scores of all groups, and the loss of a batch of pairs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray

from ttm_jax import memory, sharding
from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.losses import CONTRASTIVE
from ttm_jax.models.transformer import Compute
from ttm_jax.scorers.contrastive import (
    ContrastiveModel,
    compare,
    default_batch_size,
    encode,
    to_float,
)
from ttm_jax.scorers.task import Examples
from ttm_jax.trainable import Flat, Split, merge_params, split_params, variables

AUGMENT_SCALE = 1.1  # the paper: resize by 1.1, then a random crop


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pools:
    """Distinct images and captions on the device; `large` is what random crops are cut from.

    A pytree, so jax may put placeholders in the place of arrays: the shapes are comments.
    """

    pixels: Any  # [n, S, S, 3], uint8 or normalised float32
    tokens: Any  # [m, length], int32
    large: Any = None  # [n, S', S', 3], uint8


class ContrastiveTask:
    """See `Task`. With `chunk` > 0 the activations of that many pairs live at once, not more."""

    def __init__(
        self,
        model: ContrastiveModel,
        dataset: GroupedDataset,
        initial: Split,
        mesh: Mesh,
        *,
        global_matching: bool = False,
        augment: bool = False,
        chunk: int = 0,
        score_batch: int = 16,
    ) -> None:
        model.check_dataset(dataset)
        self.model, self.dataset, self.initial, self.mesh = model, dataset, initial, mesh
        self.global_matching, self.augment, self.chunk = global_matching, augment, chunk
        self.score_batch = sharding.round_up(score_batch, mesh.size)
        self.data = sharding.put(read_pools(model, dataset, augment), sharding.replicated(mesh))

    def score(self, trained: Flat) -> tuple[np.ndarray, ...]:
        model, size = self.model, self.score_batch
        state = variables(trained, self.initial.frozen)
        images = encode(model, "image", state, self.data.pixels, size, self.mesh)
        texts = encode(model, "text", state, self.data.tokens, size, self.mesh)
        # One product for all groups: the pools are small, and the rest is a gather on the host.
        logits = sharding.to_host(compare(model.module, state, images, texts))
        return tuple(
            logits[block.image_index[:, :, None], block.text_index[:, None, :]]
            for block in self.dataset.blocks
        )

    def examples(self, matchings: tuple[np.ndarray, ...]) -> Examples:
        pairs = [
            _block_pairs(block, matching)
            for block, matching in zip(self.dataset.blocks, matchings, strict=True)
        ]
        if self.global_matching:  # the unit is a pair, not the one big group
            (image, text, mask), *_ = pairs
            pairs = [(image.reshape(-1, 1), text.reshape(-1, 1), mask.reshape(-1, 1))]
        width = max(mask.shape[1] for _, _, mask in pairs)
        image, text, mask = (
            np.concatenate([np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in column])
            for column in zip(*pairs, strict=True)
        )
        return Examples(image, text, mask, mask)

    def value_and_grad(
        self, trained: Flat, frozen: Flat, data: Pools, batch: Examples, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Flat]:
        image, text, mask = (
            jnp.asarray(x).reshape(-1) for x in (batch.image, batch.text, batch.mask)
        )
        offsets = self._crop_offsets(key, len(mask))
        if 0 < self.chunk < len(mask):
            return self._chunked(trained, frozen, data, (image, text, mask, offsets))

        def loss(trained: Flat) -> Float[Array, ""]:
            images, texts = self._embed(trained, frozen, data, image, text, offsets)
            return self._loss(trained, frozen, images, texts, mask)

        return jax.value_and_grad(loss)(trained)

    def adapted(self, trained: Flat) -> ContrastiveModel:
        return replace(self.model, params=merge_params(trained, self.initial.frozen))

    def _crop_offsets(self, key: PRNGKeyArray, count: int) -> Int32[Array, "n 2"]:
        if not self.augment:
            return jnp.zeros((count, 2), jnp.int32)
        room = large_size(self.model.config.image_size) - self.model.config.image_size
        return jax.random.randint(key, (count, 2), 0, room + 1, jnp.int32)

    def _embed(
        self, trained: Flat, frozen: Flat, data: Pools, image: Array, text: Array, offsets: Array
    ) -> tuple[Float[Array, "n e"], Float[Array, "n e"]]:
        apply: Any = partial(self.model.module.apply, variables(trained, frozen))
        place: Callable[[Array], Array] = partial(sharding.shard_batch, mesh=self.mesh)
        if data.large is None:
            pixels = data.pixels[image]
        else:
            pixels = _crop(data.large[image], offsets, self.model.config.image_size)
        pixels = place(to_float(pixels, self.model.processor))
        images = apply(pixels, method="encode_image")
        return images, apply(place(data.tokens[text]), method="encode_text")

    def _loss(
        self, trained: Flat, frozen: Flat, images: Array, texts: Array, mask: Bool[Array, "n"]
    ) -> Float[Array, ""]:
        apply: Any = self.model.module.apply  # its declared result is wider than what comes
        logits = apply(variables(trained, frozen), images, texts, method="logits")
        return CONTRASTIVE[self.model.family](logits, mask)

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

        empty = jnp.zeros((total, self.model.config.embed_dim), jnp.float32)
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


def bind(
    model: ContrastiveModel, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int
) -> ContrastiveTask:
    """Put parameters and data on the mesh, with the step fitted into its memory."""
    params = jax.tree.map(jnp.asarray, model.params)
    split = split_params(params, config.train, config.lora_rank, jax.random.key(seed))
    units = dataset.blocks[0].image_index.size if config.matching == "global" else len(dataset)
    width = 1 if config.matching == "global" else max(min(b.shape) for b in dataset.blocks)
    step = memory.plan(model.config, split, config.batch_units(units) * width, config.memory, mesh)
    compute = Compute(config.dtype, config.precision, step.remat)
    place = partial(sharding.param_shardings, mesh=mesh, placement=config.placement)
    return ContrastiveTask(
        model.with_compute(compute),
        dataset,
        Split(split.trained, sharding.put(split.frozen, place(split.frozen))),
        mesh,
        global_matching=config.matching == "global",
        augment=config.augment,
        chunk=step.chunk,
        score_batch=default_batch_size(),
    )


def large_size(size: int) -> int:
    """The paper's `resize by 1.1`: 224 -> 246, 256 -> 281."""
    return int(size * AUGMENT_SCALE)


def read_pools(model: ContrastiveModel, dataset: GroupedDataset, augment: bool) -> Pools:
    """Decode, resize and tokenize everything, once."""
    large = None
    if augment:
        if dataset.is_preprocessed:
            raise InputError(
                "augmentation needs the original images to resize them; "
                "this dataset holds arrays that are already preprocessed: turn augment off"
            )
        large = model.read_images(dataset.images, large_size(model.config.image_size))
    pixels = model.read_images(dataset.images)
    tokens = model.shorten(model.read_captions(dataset.captions))
    return Pools(pixels, tokens, large)


def _block_pairs(
    block: Block, matching: Int32[np.ndarray, "group image"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image, caption and mask of the pairs of each group; an image may be left without one."""
    mask = matching >= 0
    text = np.take_along_axis(block.text_index, np.maximum(matching, 0), axis=1)
    return block.image_index, np.where(mask, text, 0).astype(np.int32), mask


def _crop(images: Array, offsets: Int32[Array, "n 2"], size: int) -> Array:
    """A window of each image, at its own offset."""

    def one(image: Array, offset: Array) -> Array:
        start = (offset[0], offset[1], jnp.zeros((), offset.dtype))
        return jax.lax.dynamic_slice(image, start, (size, size, 3))

    return jax.vmap(one)(images, offsets)
