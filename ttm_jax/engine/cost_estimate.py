"""Cost estimate of a run from a sample of groups: thresholds, steps, memory, disk, time."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.engine.diagnosis import first_tau
from ttm_jax.engine.model import Model
from ttm_jax.engine.ttm import Loop
from ttm_jax.training import memory_plan, sharding
from ttm_jax.training.task import Scores

LEAST_SAMPLE = 64  # units; fewer would give an unreliable threshold
_STEPS = 4  # the first one includes compilation and is not counted


@dataclass(frozen=True)
class Estimate:
    units: int
    """Groups, or images of a global matching."""
    sampled: int
    """Of them, how many were looked at."""
    batch: int
    taus: tuple[float, ...]
    first_share: float
    """Of the sampled units, the share that the first threshold selects."""
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
    available_bytes: int
    data_bytes: int
    """Images (with `augment` also the larger ones that crops are cut from) and captions."""
    disk_bytes: int
    """Of the checkpoints that are kept, and the adapted model."""

    compile_seconds: float
    """To compile scoring and training, once per process, as it took here."""

    def seconds(self, steps: int, seeds: int = 1) -> float:
        """Of a whole run with this many steps per seed, compiling included."""
        scoring = (len(self.taus) + 1) * self.score_seconds
        return self.compile_seconds + seeds * (steps * self.step_seconds + scoring)


def estimate(
    model: Model, dataset: GroupedDataset, config: TTMConfig, devices: list | None = None
) -> Estimate:
    """Score a sample and take a few training steps on it. `dataset` has its groups, as for run_ttm.

    Steps have the size that they would have; only the pools of images and captions are smaller.
    """
    if config.matching == "global":
        dataset = dataset.ungrouped()
    units = dataset.units(config.matching)
    batch = config.batch_units(units)
    sample = take_sample(dataset, config, max(batch, LEAST_SAMPLE))
    size = batch // 2 if config.matching == "global" and batch > 1 else batch
    trial = replace(config, batch_groups=size, grow_batch=False, epochs=_STEPS)
    mesh = sharding.make_mesh(devices)
    task = model.bind(sample, trial, mesh, 0)
    loop = Loop(task, sample, trial, 0)
    state = loop.trainer.start(task.initial.trained)
    began = time.perf_counter()
    loop.look(state, 0)
    first_seconds = time.perf_counter() - began
    began = time.perf_counter()
    look = loop.look(state, 0)
    score_seconds = time.perf_counter() - began
    scores = look.scores
    taus = loop.thresholds(first_tau(sample, look, trial))
    shares = [len(loop.select(scores, float(tau)).rows) / loop.units for tau in taus]
    per_epoch = [math.ceil(share * units / batch) for share in shares]
    growth = len(dataset.images) / len(sample.images)
    leaves = {**task.initial.trained, **task.initial.frozen}
    parameters = sum(x.size for x in leaves.values())
    step_seconds, step_compile = _time_steps(loop, state, scores)
    data_bytes = int(growth * sum(x.nbytes for x in jax.tree.leaves(task.data)))
    return Estimate(
        units=units,
        sampled=loop.units,
        batch=batch,
        taus=tuple(float(tau) for tau in taus),
        first_share=shares[0],
        parameters=parameters,
        least_steps=config.epochs * sum(per_epoch),
        most_steps=config.epochs * len(taus) * math.ceil(units / batch),
        step_seconds=step_seconds,
        score_seconds=score_seconds * growth,
        step_bytes=task.step_bytes,
        available_bytes=memory_plan.available_bytes(mesh),
        data_bytes=data_bytes,
        compile_seconds=max(0.0, first_seconds - score_seconds) + step_compile,
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


def _time_steps(loop: Loop, state: Any, scores: Scores) -> tuple[float, float]:
    """Seconds per step, and what the first one takes longer: it is compiled."""
    clock: list[tuple[int, float]] = []
    labels = loop.select(scores, 0.0)
    if not len(labels.rows):  # every group is tied: there is nothing to train on
        return 0.0, 0.0
    started = time.perf_counter()
    loop.fit(state, labels, 1, on_steps=lambda done, _: clock.append((done, time.perf_counter())))
    (first, began), (last, ended) = clock[0], clock[-1]
    step = (ended - began) / max(last - first, 1)
    return step, max(0.0, began - started - first * step)
