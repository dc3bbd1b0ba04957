"""CLIP or SigLIP bound to a dataset: scores of all groups, and what to train on."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int32

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.data.unreadable_images import name_group
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageError
from ttm_jax.inputs.tokenize import warn_identical
from ttm_jax.matching.large.pair_scores import too_many
from ttm_jax.models.transformer import Compute
from ttm_jax.scorers.contrastive.crops import CropPool, large_size, pack
from ttm_jax.scorers.contrastive.model import (
    ContrastiveModel,
    caption_totals,
    default_batch_size,
    embeddings_of,
    encode,
    group_scores,
)
from ttm_jax.scorers.contrastive.objective import ContrastiveObjective, Pools
from ttm_jax.training import memory_plan, sharding
from ttm_jax.training.task import Examples, Scored, Scores
from ttm_jax.training.trainable import Flat, Split, merge_params, split_params, variables


class ContrastiveTask:
    """See `Task`."""

    def __init__(
        self,
        model: ContrastiveModel,
        dataset: GroupedDataset,
        initial: Split,
        objective: ContrastiveObjective,
        pools: Pools,
        *,
        global_matching: bool,
        step_bytes: int,
    ) -> None:
        self.model, self.dataset, self.initial = model, dataset, initial
        self.objective, self.mesh = objective, objective.mesh
        self.global_matching, self.step_bytes = global_matching, step_bytes
        self.scoring: dict[str, Any] = {}  # a logit is a logit
        self.data = sharding.put(pools, sharding.replicated(self.mesh))

    embeds = True

    def score(self, trained: Flat) -> Scores:
        return self.score_further(trained, (), totals=False).scores

    def score_further(self, trained: Flat, blocks: tuple[Block, ...], *, totals: bool) -> Scored:
        model, size = self.model, default_batch_size()
        state = variables(trained, self.initial.frozen)
        images = encode(model, "image", state, self.data.pixels, size, self.mesh)
        texts = encode(model, "text", state, self.data.tokens, size, self.mesh)
        if self.global_matching and too_many(*self.dataset.blocks[0].shape):
            whole = self.dataset.blocks[0]
            return Scored((embeddings_of(model, state, images, texts, whole, self.mesh),))
        scores, further = (
            tuple(group_scores(model, state, images, texts, block, self.mesh) for block in part)
            for part in (self.dataset.blocks, blocks)
        )
        found = caption_totals(model, state, images, texts, self.mesh) if totals else None
        return Scored(scores, further, found)

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

    def adapted(self, trained: Flat) -> ContrastiveModel:
        return replace(self.model, params=merge_params(trained, self.initial.frozen))


def bind(
    model: ContrastiveModel, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int
) -> ContrastiveTask:
    """Put parameters and data on the mesh, and fit the step into the memory that is left."""
    pools = read_pools(model, dataset, config.augment)
    split = split_params(model.params, config.train, config.lora_rank, jax.random.key(seed))
    units = dataset.units(config.matching)
    width = 1 if config.matching == "global" else max(min(b.shape) for b in dataset.blocks)
    step = memory_plan.plan(
        model.config,
        split,
        config.batch_units(units) * width,
        config.memory,
        mesh,
        data_bytes=sum(x.nbytes for x in jax.tree.leaves(pools)),
    )
    model = model.with_compute(Compute(config.dtype, config.precision, step.remat))
    place = partial(sharding.param_shardings, mesh=mesh, placement=config.placement)
    frozen = sharding.put(split.frozen, place(split.frozen))
    objective = ContrastiveObjective(model.family, model.module, model.processor, mesh, step.chunk)
    return ContrastiveTask(
        model,
        dataset,
        Split(split.trained, frozen),
        objective,
        pools,
        global_matching=config.matching == "global",
        step_bytes=step.bytes_needed,
    )


def read_pools(model: ContrastiveModel, dataset: GroupedDataset, augment: bool) -> Pools:
    """Decode, resize and tokenize everything, once; a picture that is broken names its group."""
    try:
        pixels = model.read_images(dataset.images)
        large = _read_large(model, dataset) if augment else None
    except ImageError as error:
        raise name_group(dataset, error) from error
    tokens = model.read_captions(dataset.captions)
    model.check_arrays(pixels, tokens)
    if not isinstance(dataset.captions, np.ndarray):
        for block in dataset.blocks:
            warn_identical(block.ids, block.text_index, tokens, dataset.captions)
    return Pools(pixels, model.shorten(tokens), large)


def _read_large(model: ContrastiveModel, dataset: GroupedDataset) -> CropPool:
    """The pictures a little larger than the model takes them, whole."""
    if dataset.is_preprocessed or model.processor is None:
        raise InputError(
            "augmentation needs the original images to resize them; "
            "this dataset holds arrays that are already preprocessed: turn augment off"
        )
    size = model.config.image_size
    processor = model.processor.with_size(large_size(size))
    return pack(processor.uncropped(list(dataset.images)), size)


def _block_pairs(
    block: Block, matching: Int32[np.ndarray, "group image"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image, caption and mask of the pairs of each group; an image may be left without one."""
    mask = matching >= 0
    text = np.take_along_axis(block.text_index, np.maximum(matching, 0), axis=1)
    return block.image_index, np.where(mask, text, 0).astype(np.int32), mask
