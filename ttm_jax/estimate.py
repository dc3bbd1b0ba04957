"""What a run would take, measured on a few groups: thresholds, steps, memory, disk, time."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from ttm_jax import memory, sharding
from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.trainable import Split
from ttm_jax.ttm import Loop

LEAST_SAMPLE = 64  # units; a threshold from fewer would be a guess
_STEPS = 4  # the first one is the compilation and is not counted


@dataclass(frozen=True)
class Estimate:
    units: int
    """Groups, or images of a global matching."""
    sampled: int
    """Of them, how many were looked at."""
    batch: int
    taus: tuple[float, ...]
    parameters: int
    least_steps: int
    """If the margins stayed as they are."""
    most_steps: int
    """If everything were selected from the first iteration on."""
    step_seconds: float
    score_seconds: float
    """To score the whole dataset once."""
    step_bytes: int
    """Parameters, gradient and optimizer state, and activations if they are counted."""
    activations_counted: bool
    """Of CLIP and SigLIP; a generative model fits its steps to the memory there is."""
    available_bytes: int
    data_bytes: int
    disk_bytes: int
    """Of the checkpoints that are kept, and the adapted model."""

    def seconds(self, steps: int) -> float:
        return steps * self.step_seconds + (len(self.taus) + 1) * self.score_seconds


def estimate(
    model: Any, dataset: GroupedDataset, config: TTMConfig, devices: list | None = None
) -> Estimate:
    """Score a sample and take a few training steps on it. `dataset` has its groups, as for run_ttm.

    Steps have the size that they would have; only the pools of images and captions are smaller.
    """
    if config.matching == "global":
        dataset = dataset.ungrouped()
    units = _units(dataset, config)
    batch = config.batch_units(units)
    sample = take_sample(dataset, config, max(batch, LEAST_SAMPLE))
    size = batch // 2 if config.matching == "global" and batch > 1 else batch
    trial = replace(config, batch_groups=size, grow_batch=False, epochs=_STEPS)
    mesh = sharding.make_mesh(devices)
    task = model.bind(sample, trial, mesh, 0)
    loop = Loop(task, sample, trial, 0)
    state = loop.trainer.start(task.initial.trained)
    scores = loop.score(state, 0)
    began = time.perf_counter()
    scores = loop.score(state, 0)
    score_seconds = time.perf_counter() - began
    taus = loop.thresholds(scores)
    shares = [len(loop.select(scores, float(tau)).rows) / loop.units for tau in taus]
    per_epoch = [math.ceil(share * units / batch) for share in shares]
    growth = len(dataset.images) / len(sample.images)
    leaves = {**task.initial.trained, **task.initial.frozen}
    parameters = sum(x.size for x in leaves.values())
    return Estimate(
        units=units,
        sampled=loop.units,
        batch=batch,
        taus=tuple(float(tau) for tau in taus),
        parameters=parameters,
        least_steps=config.epochs * sum(per_epoch),
        most_steps=config.epochs * len(taus) * math.ceil(units / batch),
        step_seconds=_time_steps(loop, state, scores),
        score_seconds=score_seconds * growth,
        step_bytes=_step_bytes(model, task.initial, sample, trial, mesh),
        activations_counted=_is_contrastive(model),
        available_bytes=memory.available_bytes(mesh),
        data_bytes=int(growth * sum(x.nbytes for x in jax.tree.leaves(task.data))),
        disk_bytes=4 * parameters * (1 + (config.keep_checkpoints or config.iterations + 1)),
    )


def take_sample(dataset: GroupedDataset, config: TTMConfig, count: int) -> GroupedDataset:
    """Groups spread evenly over all shapes; of a global matching, the first images and captions."""
    if config.matching == "group":
        rows = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int)
        return dataset.select(rows.tolist())
    block = dataset.blocks[0]
    part = Block(block.ids, block.image_index[:, :count], block.text_index[:, :count])
    return replace(dataset, blocks=(part,)).select([0])


def _units(dataset: GroupedDataset, config: TTMConfig) -> int:
    return dataset.blocks[0].image_index.size if config.matching == "global" else len(dataset)


def _time_steps(loop: Loop, state: Any, scores: tuple[np.ndarray, ...]) -> float:
    """Seconds a step, without the first call."""
    clock: list[tuple[int, float]] = []
    labels = loop.select(scores, 0.0)
    if not len(labels.rows):  # every group is tied: nothing would ever be trained on
        return 0.0
    loop.fit(state, labels, 1, on_steps=lambda done, _: clock.append((done, time.perf_counter())))
    (first, began), (last, ended) = clock[0], clock[-1]
    return (ended - began) / max(last - first, 1)


def _is_contrastive(model: Any) -> bool:
    return isinstance(model.config, SigLIPConfig | CLIPConfig)


def _step_bytes(
    model: Any, split: Split, sample: GroupedDataset, config: TTMConfig, mesh: Mesh
) -> int:
    if not _is_contrastive(model):
        return memory.state_bytes(split)
    width = 1 if config.matching == "global" else max(min(b.shape) for b in sample.blocks)
    pairs = config.batch_units(_units(sample, config)) * width
    return memory.plan(model.config, split, pairs, config.memory, mesh).bytes_needed
