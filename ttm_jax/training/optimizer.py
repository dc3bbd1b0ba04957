"""AdamW as PyTorch has it, with a bias correction that keeps its digits in float32.

`1 - 0.999**t` in float32 is off by 1.3e-5 at the first step, always in the same direction: over an
iteration of a tiny model this moves the scores ten times as far as all other rounding together.
`-expm1(t * log(0.999))` is right to the last digit.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ttm_jax.errors import InputError
from ttm_jax.training.trainable import Flat


class AdamState(NamedTuple):
    """Steps taken and the two moments of every trained parameter.

    A pytree, so jax may put placeholders in the place of arrays: the shapes are comments.
    """

    count: Any  # int32
    mu: Flat  # as the parameters
    nu: Flat  # as the parameters


@dataclass(frozen=True)
class AdamW:
    """The paper's optimizer; weight decay is on every parameter, norms and logit scale too.

    Agrees with `torch.optim.AdamW` in where eps stands (outside both square roots) and in the
    decoupled decay, which is scaled by the learning rate only. PyTorch applies the decay by
    multiplying with `1 - lr * weight_decay`; in float32 that factor keeps one or two digits of a
    small lr (1 - 5e-7 is 5 % off), so it is subtracted here together with the update.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.05

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(
                    f"{name} is {getattr(self, name)}; expected a number from 0 to below 1"
                )

    def init(self, params: Flat) -> AdamState:
        """No steps taken, moments at zero."""
        mu, nu = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return AdamState(jnp.zeros((), jnp.int32), mu, nu)

    def update(
        self, params: Flat, gradient: Flat, state: AdamState, lr: Float[Array, ""]
    ) -> tuple[Flat, AdamState]:
        """One step. Each leaf is updated elementwise, for the compiler to fuse."""
        count = state.count + 1
        steps = count.astype(jnp.float32)
        size = lr / _bias_correction(self.beta1, steps)
        root = jnp.sqrt(_bias_correction(self.beta2, steps))

        def leaf(p: Array, g: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
            m = self.beta1 * m + (1 - self.beta1) * g
            v = self.beta2 * v + (1 - self.beta2) * (g * g)
            step = size * m / (jnp.sqrt(v) / root + self.eps)
            return p - (step + lr * self.weight_decay * p), m, v

        new = {
            path: leaf(p, gradient[path], state.mu[path], state.nu[path])
            for path, p in params.items()
        }
        trained, mu, nu = ({path: x[i] for path, x in new.items()} for i in range(3))
        return trained, AdamState(count, mu, nu)


def _bias_correction(decay: float, steps: Float[Array, ""]) -> Float[Array, ""]:
    """1 - decay**steps; the logarithm is Python's, in float64."""
    return -jnp.expm1(steps * (math.log(decay) if decay else -math.inf))
