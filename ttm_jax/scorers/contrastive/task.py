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
from ttm_jax.inputs.preprocess import ImageError, ImageProcessor
from ttm_jax.inputs.tokenize import warn_identical
from ttm_jax.matching.large.pair_scores import too_many
from ttm_jax.models.flops import step_flops
from ttm_jax.models.transformer import Compute
from ttm_jax.models.two_tower import TwoTowerConfig
from ttm_jax.scorers.contrastive.crops import CropPool, large_size, pack
from ttm_jax.scorers.contrastive.encode_parts import Stage, encode_part, first_shape
from ttm_jax.scorers.contrastive.model import (
    ContrastiveModel,
    caption_totals,
    default_batch_size,
    embeddings_of,
    encode,
    group_scores,
)
from ttm_jax.scorers.contrastive.objective import ContrastiveObjective, Pools
from ttm_jax.scorers.contrastive.pixels import Processor
from ttm_jax.scorers.contrastive.towers import Towers
from ttm_jax.trained_part import Side, parse_train
from ttm_jax.training import memory_plan, sharding
from ttm_jax.training.task import Examples, Scored, Scores
from ttm_jax.training.trainable import Flat, Split, merge_params, split_params, variables

_SHARE_KEPT = 0.25  # of the memory there is, for the output of what is frozen


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
        step_flops: float,
    ) -> None:
        self.model, self.dataset, self.initial = model, dataset, initial
        self.objective, self.mesh = objective, objective.mesh
        self.towers = Towers(model.module, objective.towers.part)  # as scores are computed
        self.global_matching, self.step_bytes = global_matching, step_bytes
        self.step_flops = step_flops
        self.scoring: dict[str, Any] = {}  # a logit is a logit
        self.data = sharding.put(pools, sharding.replicated(self.mesh), "images or captions")

    embeds = True

    @property
    def inputs(self) -> Pools:
        return replace(self.data, first_images=None, first_texts=None)

    def score(self, trained: Flat) -> Scores:
        return self.score_further(trained, (), totals=False).scores

    def score_further(self, trained: Flat, blocks: tuple[Block, ...], *, totals: bool) -> Scored:
        model = self.model
        images, texts = self._embed("image", trained), self._embed("text", trained)
        state = {"params": {name: trained[name] for name in ("t", "b") if name in trained}}
        if self.global_matching and too_many(*self.dataset.blocks[0].shape):
            whole = self.dataset.blocks[0]
            return Scored((embeddings_of(model, state, images, texts, whole, self.mesh),))
        scores, further = (
            tuple(group_scores(model, state, images, texts, block, self.mesh) for block in part)
            for part in (self.dataset.blocks, blocks)
        )
        found = caption_totals(model, state, images, texts, self.mesh) if totals else None
        return Scored(scores, further, found)

    def _embed(self, side: Side, trained: Flat) -> jax.Array:
        """Embeddings of all images or all captions; from what is kept, if something is."""
        data, size, params = self.data, default_batch_size(), (trained, self.initial.frozen)
        kept, pool = (
            (data.first_images, data.pixels) if side == "image" else (data.first_texts, data.tokens)
        )
        if not self.towers.is_divided(side):
            state = variables(*params)
            return encode(self.model, side, state, pool, size, self.mesh)
        if kept is not None and side not in self.towers.part.sides:
            return kept  # embeddings, once for all
        stage: Stage = "whole" if kept is None else "rest"
        pool = pool if kept is None else kept
        more = (self.model.processor, size, self.mesh)
        return encode_part(self.towers, stage, side, params, pool, data.tokens, *more)

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
    """Put parameters and data on the mesh, and fit the step into the memory that is left.

    What the frozen beginnings of the towers make of the data is computed here, once.
    """
    pools = read_pools(model, dataset, config.augment)
    split = split_params(model.params, config.train, config.lora_rank, jax.random.key(seed))
    units = dataset.units(config.matching)
    width = 1 if config.matching == "global" else max(min(b.shape) for b in dataset.blocks)
    part = parse_train(config.train)
    sizes, pairs = _trained_config(Towers(model.module, part)), config.batch_units(units) * width
    step = memory_plan.plan(
        sizes,
        split,
        pairs,
        config.memory,
        mesh,
        data_bytes=sum(x.nbytes for x in jax.tree.leaves(pools)),
    )
    model = model.with_compute(Compute(config.dtype, config.precision, step.remat))
    trained = model.with_compute(Compute(*config.training_compute, step.remat))
    place = partial(sharding.param_shardings, mesh=mesh, placement=config.placement)
    frozen = sharding.put(split.frozen, place(split.frozen))
    towers = Towers(model.module, part)
    split = Split(split.trained, frozen)
    pools = _with_first(towers, split, pools, model.processor, mesh)
    objective = ContrastiveObjective(
        Towers(trained.module, part), model.processor, mesh, step.chunk
    )
    return ContrastiveTask(
        model,
        dataset,
        split,
        objective,
        pools,
        global_matching=config.matching == "global",
        step_bytes=step.bytes_needed,
        step_flops=float(step_flops(sizes, pairs)),
    )


def _trained_config(towers: Towers) -> TwoTowerConfig:
    """The sizes of what the backward pass goes through."""
    config = towers.module.config
    return replace(
        config,
        vision=replace(config.vision, depth=towers.rest_depth("image")),
        text=replace(config.text, depth=towers.rest_depth("text")),
    )


def _with_first(
    towers: Towers, split: Split, pools: Pools, processor: Processor | None, mesh: Mesh
) -> Pools:
    """Add the output of the frozen beginning of each tower, unless it needs too much memory.

    Random crops are new in every step, so with them the images are not kept.
    """
    few: Flat = {name: split.trained[name] for name in ("t", "b") if name in split.trained}
    params = (few, split.frozen)
    room = _SHARE_KEPT * memory_plan.available_bytes(mesh)
    whole = sharding.replicated(mesh)
    images = (len(pools.pixels), *towers.module.config.image_shape)
    kept: dict[str, Any] = {}
    sides: tuple[tuple[Side, Any, Any], ...] = (
        ("text", pools.tokens, jax.ShapeDtypeStruct(pools.tokens.shape, np.int32)),
        ("image", pools.pixels, jax.ShapeDtypeStruct(images, np.float32)),
    )
    for side, pool, example in sides:
        if not towers.is_divided(side) or (side == "image" and pools.large is not None):
            continue
        shape = first_shape(towers, side, params, example)
        room -= shape.size * shape.dtype.itemsize
        if room >= 0:
            pool, ids = sharding.put((pool, pools.tokens), whole)
            more = (processor, default_batch_size(), mesh)
            found = encode_part(towers, "first", side, params, pool, ids, *more)
            kept[f"first_{side}s"] = sharding.put(found, whole)
    return replace(pools, **kept)


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
    if not isinstance(model.processor, ImageProcessor):
        raise InputError(
            "augmentation crops squares from larger images; this model takes whole images of any "
            "aspect: turn augment off"
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
