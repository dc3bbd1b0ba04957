"""Fitting to pseudo-labels: one compiled loop that serves every batch, epoch and iteration.

Batches have one shape and a mask; how many steps to take is an argument of the compiled function.
So nothing is compiled again when the pseudo-label set grows, and the host is not asked at every
step. Pure but for the clock that sizes the calls, which does not touch the numbers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PRNGKeyArray, UInt32

from ttm_jax.config import Placement
from ttm_jax.hosts import scope
from ttm_jax.models.jaxlib_check import check_jaxlib
from ttm_jax.training import sharding
from ttm_jax.training.optimizer import AdamState, AdamW
from ttm_jax.training.task import Examples, Objective, Task
from ttm_jax.training.trainable import Flat

SECONDS_PER_CALL = 1.0  # how often the host looks in: progress bar, signals
STEPS_PER_CALL_ON_A_POD = 8


class NonFiniteLoss(ArithmeticError):
    """The loss of this step was NaN or infinite: the parameters are lost, checkpoints are not."""

    def __init__(self, step: int, loss: float):
        super().__init__(f"loss is {loss} at step {step}")
        self.step, self.loss = step, loss


class Interrupted(Exception):
    """Somebody asked to stop; `state` is complete up to `step` of the current iteration."""

    def __init__(self, state: "TrainState", step: int, losses: np.ndarray):
        super().__init__(f"interrupted at step {step}")
        self.state, self.step, self.losses = state, step, losses


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    trained: Flat
    optimizer: AdamState


@dataclass(frozen=True)
class Plan:
    """Which units make each batch, and its learning rate; `steps` of the rows are used."""

    rows: Int32[np.ndarray, "step unit"]
    valid: Bool[np.ndarray, "step unit"]
    lr: Float32[np.ndarray, "step"]
    steps: int


def plan_batches(
    selected: Int32[np.ndarray, "n"],
    batch: int,
    epochs: int,
    lr: Callable[[int], np.ndarray],
    *,
    max_units: int,
    rng: np.random.Generator | None,
) -> Plan:
    """Epochs over the selected units, each in a new order if there is an `rng`.

    The last batch of an epoch is kept, however small. Shapes depend on `max_units` only.
    """
    per_epoch, capacity = -(-len(selected) // batch), -(-max_units // batch) * epochs
    rows = np.zeros((capacity, batch), np.int32)
    valid = np.zeros((capacity, batch), bool)
    for epoch in range(epochs):
        order = selected if rng is None else rng.permutation(selected)
        for index in range(per_epoch):
            part = order[index * batch : (index + 1) * batch]
            rows[epoch * per_epoch + index, : len(part)] = part
            valid[epoch * per_epoch + index, : len(part)] = True
    steps = epochs * per_epoch
    rates = np.zeros(capacity, np.float32)
    rates[:steps] = lr(steps)
    return Plan(rows, valid, rates, steps)


class Trainer:
    """Runs the compiled loop for a task; `fit` takes one iteration of training from any step."""

    def __init__(self, task: Task, optimizer: AdamW, placement: Placement = "replicated") -> None:
        check_jaxlib()
        self.task, self.optimizer, self.placement = task, optimizer, placement

    def start(self, trained: Flat) -> TrainState:
        """Fresh optimizer state; parameters and state placed on the mesh."""
        place = partial(sharding.param_shardings, mesh=self.task.mesh, placement=self.placement)
        # The loop gives its input away: work on a copy that nobody else holds.
        trained = jax.tree.map(jnp.copy, sharding.put(trained, place(trained), "parameters"))
        shapes = jax.eval_shape(self.optimizer.init, trained)
        zeros = jax.tree.map(
            lambda x, where: jnp.zeros(x.shape, x.dtype, device=where), shapes, place(shapes)
        )
        return TrainState(trained, zeros)

    def reset(self, state: TrainState) -> TrainState:
        """The same parameters with moments and step count at zero; the old ones are given away."""
        where = jax.tree.map(lambda x: x.sharding, state.optimizer)
        # Unused but kept, or its memory could not be given away: there is never a second set.
        zeros = jax.jit(_zeros_like, donate_argnums=0, keep_unused=True, out_shardings=where)
        return TrainState(state.trained, zeros(state.optimizer))

    def fit(
        self,
        state: TrainState,
        examples: Examples,
        plan: Plan,
        key: PRNGKeyArray,
        *,
        first_step: int = 0,
        losses: Float32[np.ndarray, "longest"] | None = None,
        on_steps: Callable[[int, float], None] = lambda step, loss: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[TrainState, Float32[np.ndarray, "step"]]:
        """Take the steps of the plan; returns the state and the loss of every step."""
        whole = sharding.replicated(self.task.mesh)
        key_data = np.asarray(jax.random.key_data(key))  # a key itself cannot go to all hosts
        examples, rows, valid, lr, key_data = sharding.put(
            (examples, plan.rows, plan.valid, plan.lr, key_data), whole
        )
        frozen, data = self.task.initial.frozen, self.task.data
        if losses is None:
            losses = np.zeros(len(plan.lr), np.float32)
        record = sharding.put(losses, whole)
        step, size = first_step, 1
        while step < plan.steps:
            began = time.perf_counter()
            stop = min(step + size, plan.steps)
            state, record, done = run_steps(
                self.task.objective,
                self.optimizer,
                (state, record),
                frozen,
                data,
                examples,
                (rows, valid, lr),
                np.int32(step),
                np.int32(stop),
                key_data,
            )
            losses = sharding.to_host(record)
            if int(done) < stop:
                raise NonFiniteLoss(int(done), float(losses[int(done)]))
            step = stop
            on_steps(step, float(losses[step - 1]))
            if step < plan.steps and sharding.agree(should_stop()):
                raise Interrupted(state, step, losses)
            size = _next_size(size, time.perf_counter() - began)
        return state, losses[: plan.steps]


def _next_size(size: int, seconds: float) -> int:
    """Double the steps of a call while it stays short; halve when it does not.

    The hosts of a pod have clocks of their own but must make the same calls: there it is fixed.
    """
    if scope.count() > 1:
        return STEPS_PER_CALL_ON_A_POD
    if seconds < SECONDS_PER_CALL / 2:
        return size * 2
    return max(1, size // 2) if seconds > SECONDS_PER_CALL * 2 else size


@partial(jax.jit, static_argnames=("objective", "optimizer"), donate_argnames="carry")
def run_steps(
    objective: Objective,
    optimizer: AdamW,
    carry: tuple[TrainState, Float32[Array, "step"]],
    frozen: Flat,
    data: Any,
    examples: Examples,
    plan: tuple[Int32[Array, "step unit"], Bool[Array, "step unit"], Float32[Array, "step"]],
    start: Any,  # whole numbers, traced
    stop: Any,
    key_data: UInt32[Array, "2"],
) -> tuple[TrainState, Float32[Array, "step"], Int32[Array, ""]]:
    """Steps `start` to `stop`, or up to the first whose loss is not finite."""
    rows, valid, rates = plan
    key = jax.random.wrap_key_data(key_data)

    def body(loop: tuple) -> tuple:
        state, losses, step, _ = loop
        batch = jax.tree.map(lambda x: x[rows[step]], examples)
        mask = batch.mask & valid[step][:, None]
        batch = Examples(batch.image, batch.text, batch.label, mask)
        loss, gradient = objective.value_and_grad(
            state.trained, frozen, data, batch, jax.random.fold_in(key, step)
        )
        state = TrainState(*optimizer.update(state.trained, gradient, state.optimizer, rates[step]))
        finite = jnp.isfinite(loss)  # if not, the caller gives this state up
        return state, losses.at[step].set(loss), step + finite.astype(step.dtype), finite

    def unfinished(loop: tuple) -> Bool[Array, ""]:
        return (loop[2] < stop) & loop[3]

    state, losses, step, _ = jax.lax.while_loop(
        unfinished, body, (*carry, start, jnp.ones((), bool))
    )
    return state, losses, step


def _zeros_like(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)
