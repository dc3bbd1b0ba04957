"""Fitting to pseudo-labels: a compiled loop that serves every batch, epoch and iteration.

Batches have at most three shapes (`batches.py`), all compiled before the first step; how many steps
to take is an argument of the compiled function. So nothing is compiled again when the pseudo-label
set grows, and the host is not asked at every step. Pure but for the clock that sizes the calls,
which does not touch the numbers.
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
from ttm_jax.fault_points import fault_point
from ttm_jax.hosts import this_host
from ttm_jax.models.jaxlib_check import check_jaxlib
from ttm_jax.training import sharding
from ttm_jax.training.batches import Plan
from ttm_jax.training.optimizer import AdamState, AdamW
from ttm_jax.training.return_memory import return_free_memory
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


class Trainer:
    """Runs the compiled loop for a task; `fit` takes one iteration of training from any step.

    `widths` are the batch sizes to compile, from `batch_widths`; if there are none, the plan's.
    """

    def __init__(
        self,
        task: Task,
        optimizer: AdamW,
        placement: Placement = "replicated",
        widths: tuple[int, ...] = (),
    ) -> None:
        check_jaxlib()
        self.task, self.optimizer, self.placement = task, optimizer, placement
        self.widths, self._compiled = widths, False

    def start(self, trained: Flat, *, consume: bool = False) -> TrainState:
        """Fresh optimizer state; parameters and state placed on the mesh.

        With `consume`, `trained` is empty afterwards: each array is let go as soon as it is copied.
        """
        place = partial(sharding.param_shardings, mesh=self.task.mesh, placement=self.placement)
        where = place(trained)
        given, trained = trained, {}
        for path in list(given):
            leaf = given.pop(path) if consume else given[path]
            # The loop gives its input away: work on a copy that nobody else holds.
            trained[path] = sharding.copy(sharding.put(leaf, where[path], f"parameter {path}"))
        shapes = jax.eval_shape(self.optimizer.init, trained)
        # One program for all: compiling one for each shape would take longer.
        zeros = jax.jit(partial(_zeros_like, shapes), out_shardings=place(shapes))
        return TrainState(trained, zeros())

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
        if losses is None:
            losses = np.zeros(len(plan.lr), np.float32)
        widths = self.widths or (plan.rows.shape[1],)

        def run(carry: tuple, width: int, start: int, stop: int) -> tuple:
            return run_steps(
                self.task.objective,
                self.optimizer,
                width,
                carry,
                self.task.initial.frozen,
                self.task.data,
                examples,
                (rows, valid, lr),
                np.int32(start),
                np.int32(stop),
                key_data,
            )

        record = sharding.put(losses, whole)
        if first_step < plan.steps and not self._compiled:
            for width in widths:  # no steps: this compiles
                state, record, _ = run((state, record), width, first_step, first_step)
            return_free_memory()
            self._compiled = True
        step, size = first_step, 1
        while step < plan.steps:
            began = time.perf_counter()
            before, (width, stop) = step, plan.stretch(step, size, widths)
            state, record, done = run((state, record), width, step, stop)
            losses = sharding.to_host(record)
            if int(done) < stop:
                raise NonFiniteLoss(int(done), float(losses[int(done)]))
            step = stop
            fault_point("steps taken")
            on_steps(step, float(losses[step - 1]))
            if step < plan.steps and sharding.agree(should_stop()):
                raise Interrupted(state, step, losses)
            size = _next_size(size, stop - before, time.perf_counter() - began)
        return state, losses[: plan.steps]


def _next_size(size: int, taken: int, seconds: float) -> int:
    """Double the steps of a call while a whole one stays short; halve when it does not.

    The hosts of a pod have clocks of their own but must make the same calls: there it is fixed.
    """
    if this_host.count() > 1:
        return STEPS_PER_CALL_ON_A_POD
    seconds *= size / taken  # a call may have ended early, where the width changes
    if seconds < SECONDS_PER_CALL / 2:
        return size * 2
    return max(1, size // 2) if seconds > SECONDS_PER_CALL * 2 else size


@partial(jax.jit, static_argnames=("objective", "optimizer", "width"), donate_argnames="carry")
def run_steps(
    objective: Objective,
    optimizer: AdamW,
    width: int,
    carry: tuple[TrainState, Float32[Array, "step"]],
    frozen: Flat,
    data: Any,
    examples: Examples,
    plan: tuple[Int32[Array, "step unit"], Bool[Array, "step unit"], Float32[Array, "step"]],
    start: Any,  # whole numbers, traced
    stop: Any,
    key_data: UInt32[Array, "2"],
) -> tuple[TrainState, Float32[Array, "step"], Int32[Array, ""]]:
    """Steps `start` to `stop`, or up to the first whose loss is not finite.

    Only the first `width` units of each batch are looked at.
    """
    rows, valid, rates = plan
    rows, valid = rows[:, :width], valid[:, :width]
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
