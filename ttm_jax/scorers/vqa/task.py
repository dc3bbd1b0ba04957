"""SmolVLM bound to a dataset: the scores of all groups, and the training examples."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Bool, Int32

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.data.unreadable_images import name_group
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageError
from ttm_jax.models.transformer import Compute
from ttm_jax.scorers.vqa import memory
from ttm_jax.scorers.vqa.inputs import Pools, Sizes
from ttm_jax.scorers.vqa.model import VQAModel
from ttm_jax.scorers.vqa.objective import VQAObjective
from ttm_jax.scorers.vqa.scoring import score_pairs
from ttm_jax.trained_part import parse_train
from ttm_jax.training import memory_plan, sharding
from ttm_jax.training.task import Examples, Scored
from ttm_jax.training.trainable import Flat, Split, merge_params, split_params, variables

_CHUNKS = (16, 8, 4, 2, 1)  # images with their questions


class VQATask:
    """See `Task`."""

    def __init__(
        self,
        model: VQAModel,
        dataset: GroupedDataset,
        initial: Split,
        objective: VQAObjective,
        pools: Pools,
        sizes: Sizes,
        step_bytes: int,
        step_flops: float,
    ) -> None:
        self.model, self.dataset, self.initial, self.sizes = model, dataset, initial, sizes
        self.objective, self.mesh = objective, objective.vqa.mesh
        self.vqa = model.vqa(self.mesh)  # as scores are computed
        self.step_bytes, self.step_flops = step_bytes, step_flops
        self.data = sharding.put(pools, sharding.replicated(self.mesh), "images or captions")
        self.scoring: dict[str, Any] = model.describe()

    embeds = False

    @property
    def inputs(self) -> Pools:
        return self.data

    def score(self, trained: Flat) -> tuple[np.ndarray, ...]:
        return self._score(trained, self.dataset.blocks)

    def score_further(self, trained: Flat, blocks: tuple[Block, ...], *, totals: bool) -> Scored:
        assert not totals, "every image with every caption would be a pass through the model"
        own = self.dataset.blocks
        found = self._score(trained, (*own, *blocks))
        return Scored(found[: len(own)], found[len(own) :])

    def _score(self, trained: Flat, of: tuple[Block, ...]) -> tuple[np.ndarray, ...]:
        blocks = [_pairs(block) for block in of]
        pairs, inverse = np.unique(np.concatenate(blocks), axis=0, return_inverse=True)
        found = score_pairs(
            self.vqa,
            variables(trained, self.initial.frozen),
            self.data,
            self.sizes,
            pairs,
            self.model.batch_size(self.sizes, self.mesh),
        )[inverse.reshape(-1)]
        ends = np.cumsum([len(block) for block in blocks])[:-1]
        return tuple(
            values.reshape(len(block), *block.shape)
            for block, values in zip(of, np.split(found, ends), strict=True)
        )

    def examples(self, matchings: tuple[np.ndarray, ...]) -> Examples:
        """All pairs of every group: matched ones, and mismatched ones as negatives."""
        images = max(block.shape[0] for block in self.dataset.blocks)
        shape = (images, self.objective.questions)
        columns = zip(
            *(
                _block_examples(block, matching, shape)
                for block, matching in zip(self.dataset.blocks, matchings, strict=True)
            ),
            strict=True,
        )
        return Examples(*(np.concatenate(column) for column in columns))

    def adapted(self, trained: Flat) -> VQAModel:
        return replace(self.model, params=merge_params(trained, self.initial.frozen))


def bind(
    model: VQAModel, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int
) -> VQATask:
    """Place parameters and data on the mesh, with a training step that fits in memory."""
    _check(config)
    split = split_params(model.params, config.train, config.lora_rank, jax.random.key(seed))
    try:
        pools, sizes = model.read(dataset.images, dataset.captions)
    except ImageError as error:
        raise name_group(dataset, error) from error
    _check_room(pools, mesh)
    images, questions = (max(block.shape[side] for block in dataset.blocks) for side in (0, 1))
    row = memory.Row(
        pools.tile_index.shape[1], pools.prefix.shape[1], questions, pools.question.shape[1]
    )
    rows = config.batch_units(len(dataset)) * images
    counts = {
        tower: sum(np.size(x) for x in jax.tree.leaves(model.params[tower]))
        for tower in ("img", "txt")
    }
    step = memory_plan.fit(
        partial(memory.activation_bytes, model.config, row),
        split,
        rows,
        config.memory,
        mesh,
        _CHUNKS,
    )
    model = model.with_compute(Compute(config.dtype, config.precision, step.remat))
    trained = model.with_compute(Compute(*config.training_compute, step.remat))
    place = partial(sharding.param_shardings, mesh=mesh, placement=config.placement)
    frozen = sharding.put(split.frozen, place(split.frozen))
    objective = VQAObjective(trained.vqa(mesh), questions, step.chunk)
    initial = Split(split.trained, frozen)
    flops = memory.step_flops(model.config, counts, row, rows)
    return VQATask(model, dataset, initial, objective, pools, sizes, step.bytes_needed, flops)


def _check(config: TTMConfig) -> None:
    if config.matching == "global":
        raise InputError(
            "a VQA model learns from matched and mismatched pairs of groups; global matching has "
            'no groups, and a model trained only on "Yes" would answer nothing else: use matching '
            "within groups"
        )
    if parse_train(config.train).last:
        raise InputError(
            f"train {config.train}: of a generative model, all, image, text, heads or lora can be "
            "trained, not the last blocks"
        )
    if config.augment:
        raise InputError("random crops are not supported for tiled images: turn augment off")


def _check_room(pools: Pools, mesh: Mesh) -> None:
    need, room = pools.tiles.nbytes, memory_plan.available_bytes(mesh)
    if need > room:
        raise InputError(
            f"the {len(pools.tiles)} tiles of these images need {need / 2**30:.1f} GB, but only "
            f"{room / 2**30:.1f} GB are available: turn splitting off, or use fewer groups"
        )


def _pairs(block: Block) -> Int32[np.ndarray, "pair 2"]:
    shape = (len(block), *block.shape)
    image = np.broadcast_to(block.image_index[:, :, None], shape)
    text = np.broadcast_to(block.text_index[:, None, :], shape)
    return np.stack([image.reshape(-1), text.reshape(-1)], axis=1)


def _block_examples(
    block: Block, matching: Int32[np.ndarray, "group image"], shape: tuple[int, int]
) -> tuple[
    Int32[np.ndarray, "group pair"],
    Int32[np.ndarray, "group pair"],
    Bool[np.ndarray, "group pair"],
    Bool[np.ndarray, "group pair"],
]:
    """Image, caption, label and mask of each pair, ordered by image, padded to a common shape."""
    images, texts = block.shape
    grid = (len(block), images, texts)
    columns = (
        np.broadcast_to(block.image_index[:, :, None], grid),
        np.broadcast_to(block.text_index[:, None, :], grid),
        matching[:, :, None] == np.arange(texts)[None, None],
        np.ones(grid, bool),
    )
    room = ((0, 0), (0, shape[0] - images), (0, shape[1] - texts))
    # The image of a row is that of its first pair, so shorter rows are padded with their own image.
    image, text, label, mask = (
        np.pad(x, room, mode="edge" if i == 0 else "constant").reshape(len(block), -1)
        for i, x in enumerate(columns)
    )
    return image, text, label, mask
