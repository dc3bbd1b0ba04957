"""A learning rate without labels, for a model that nobody recommends one for.

The rate is the largest of a few at which, over a handful of steps on the first selected groups, the
loss falls steadily and the parameters stay near where they were. Both are about the model's own
pseudo-labels: the truth is never looked at. A rate that is much too small changes nothing within a
run, and one that is too large forgets what the model knew; this finds the order of magnitude.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.diagnosis import first_tau
from ttm_jax.engine.model import Model
from ttm_jax.engine.ttm import Loop
from ttm_jax.training import sharding
from ttm_jax.training.batches import Plan
from ttm_jax.training.trainer import NonFiniteLoss

RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3)
STEPS = 10
FARTHEST = 0.025  # norm of the change of all parameters, relative to their norm
_NOISE = 0.01  # of the loss: a step that rises less than this still counts as falling


@dataclass(frozen=True)
class Trial:
    """One rate: the loss before every step, and how far the parameters moved."""

    lr: float
    losses: tuple[float, ...]
    moved: float

    @property
    def is_steady(self) -> bool:
        """The loss never rises by more than noise, and is lower at the end."""
        steps = zip(self.losses, self.losses[1:], strict=False)
        calm = all(new <= old * (1 + _NOISE) for old, new in steps)
        return len(self.losses) > 1 and calm and self.losses[-1] < self.losses[0]

    @property
    def is_good(self) -> bool:
        return self.is_steady and self.moved <= FARTHEST


@dataclass(frozen=True)
class FoundRate:
    lr: float
    trials: tuple[Trial, ...]
    """In the order in which they were made."""
    groups: int
    """How many groups (or pairs) they trained on."""

    @property
    def text(self) -> str:
        """What was done, in one line."""
        best = next((trial for trial in self.trials if trial.lr == self.lr), None)
        if best is None or not best.is_good:
            return f"lr {self.lr:g}: no rate passed the trial, this is the smallest; give --lr"
        return (
            f"lr {self.lr:g}, found without labels: the largest rate at which the loss on the "
            f"first {self.groups} selected falls steadily and parameters move at most "
            f"{100 * FARTHEST:g} % in {len(best.losses)} steps"
        )


def find_rate(
    model: Model,
    dataset: GroupedDataset,
    config: TTMConfig,
    devices: list | None = None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
) -> FoundRate:
    """Try a few of `RATES`, halving the range each time. `dataset` has its groups, as for run_ttm.

    The steps have the shapes of the run that follows, so that nothing is compiled twice.
    """
    if config.matching == "global":
        dataset = dataset.ungrouped()
    task = model.bind(dataset, config, sharding.make_mesh(devices), 0)
    loop = Loop(task, dataset, config, 0)
    look = loop.look(loop.trainer.start(task.initial.trained), 0)
    labels = loop.select(look.scores, first_tau(dataset, look, config))
    rows = labels.rows[: loop.batch]
    if not len(rows):  # every matching is tied
        return FoundRate(RATES[0], (), 0)
    trials: list[Trial] = []
    low, high = -1, len(RATES)  # the largest that passed, the smallest that did not
    while high - low > 1:
        middle = (low + high) // 2
        trial = _try(loop, labels.matchings, rows, RATES[middle])
        trials.append(trial)
        on_trial(trial)
        low, high = (middle, high) if trial.is_good else (low, middle)
    return FoundRate(RATES[max(low, 0)], tuple(trials), len(rows))


def _try(loop: Loop, matchings: tuple[np.ndarray, ...], rows: np.ndarray, lr: float) -> Trial:
    start = loop.task.initial.trained
    state = loop.trainer.start(start)
    plan = _one_batch(loop, rows, lr)
    try:
        state, losses = loop.trainer.fit(
            state, loop.task.examples(matchings), plan, jax.random.key(0)
        )
    except NonFiniteLoss:
        return Trial(lr, (), float("inf"))
    return Trial(lr, tuple(losses[: plan.steps].tolist()), _distance(start, state.trained))


def _one_batch(loop: Loop, rows: np.ndarray, lr: float) -> Plan:
    """The same batch again and again, in arrays of the shape that a run of this config uses."""
    capacity = -(-loop.units // loop.batch) * loop.config.epochs
    steps = min(STEPS, capacity)
    batches = np.zeros((capacity, loop.batch), np.int32)
    valid = np.zeros((capacity, loop.batch), bool)
    batches[:steps, : len(rows)] = rows
    valid[:steps, : len(rows)] = True
    rates = np.zeros(capacity, np.float32)
    rates[:steps] = lr
    return Plan(batches, valid, rates, steps)


def _distance(before: dict, after: dict) -> float:
    """Norm of the change, relative to the norm of the parameters."""
    moved = sum(float(jnp.sum((after[name] - before[name]) ** 2)) for name in before)
    size = sum(float(jnp.sum(jnp.asarray(before[name]) ** 2)) for name in before)
    return float(np.sqrt(moved / size)) if size else float("inf")
