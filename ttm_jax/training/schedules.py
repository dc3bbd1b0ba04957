"""How tau and the learning rate move from iteration to iteration (paper, Sec. 3.2 and App. B.1)."""

import math
from typing import get_args

import numpy as np
from jaxtyping import Float64

from ttm_jax.config import Schedule
from ttm_jax.errors import InputError


def tau_schedule(
    kind: Schedule, tau_1: float | int, tau_T: float | int, iterations: int
) -> Float64[np.ndarray, " iteration"]:
    """tau of every iteration, both ends included; with one iteration, its start.

    - `linear`, `cosine`: from tau_1 to tau_T, the paper's decaying schedules;
    - `constant`: tau_1 throughout;
    - `ascending`: linear from the lower of the two to the higher, the paper's counter-example.
    """
    if iterations < 1:
        raise InputError(f"iterations is {iterations}; expected 1 or more")
    if not (math.isfinite(tau_1) and math.isfinite(tau_T)):
        raise InputError(f"tau goes from {tau_1} to {tau_T}; expected two finite numbers")
    if kind == "constant":
        return np.full(iterations, float(tau_1))
    if kind == "linear":
        return np.linspace(tau_1, tau_T, iterations)
    if kind == "ascending":
        return np.linspace(min(tau_1, tau_T), max(tau_1, tau_T), iterations)
    if kind == "cosine":
        angle = np.linspace(0, math.pi, iterations)
        return tau_T + (tau_1 - tau_T) * (1 + np.cos(angle)) / 2
    raise InputError(f"tau schedule is {kind!r}; expected one of {', '.join(get_args(Schedule))}")


def learning_rates(
    lr: float, iteration: int, steps: int, restart: float = 0.95, floor: float = 0.1
) -> Float64[np.ndarray, " step"]:
    """The learning rate of each step of one iteration (counted from 0): a restarted cosine.

    It starts at `lr * restart**iteration` and falls towards `floor` times that, where it would be
    one step after the last. No warm-up. `steps` is epochs x ceil(selected / batch); an iteration
    that selected nothing has 0 steps but counts for the restart factor. The floor of 0.1 is not in
    the paper; it is that of the authors' public code.
    """
    if iteration < 0 or steps < 0:
        raise InputError(
            f"iteration is {iteration} and steps is {steps}; both are counted from 0 upwards"
        )
    if not (lr > 0 and restart > 0 and 0 <= floor <= 1):
        raise InputError(
            f"lr {lr}, restart {restart}, floor {floor}: expected lr > 0, restart > 0 and a floor "
            "between 0 and 1"
        )
    progress = np.arange(steps) / max(steps, 1)
    return lr * restart**iteration * (floor + (1 - floor) * (1 + np.cos(math.pi * progress)) / 2)
