"""Which units make each batch, and how wide the compiled step for it is.

Shapes are compiled, so a batch has one of a few widths and a mask. All batches of an epoch are full
but the last, which would cost as much as a full one however small it is: a half and a quarter width
are for that one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int32

# What a device could compute while one more width is compiled: 5 s of two CPU cores, 20 s of an
# accelerator.
_COMPILING = {"cpu": 5e11}
_COMPILING_ELSEWHERE = 2e15
# Part of a batch, and the share of a full step that a width of that size saves per epoch if last
# batches have random sizes: a quarter with a half, another sixteenth with a quarter.
_SAVES = ((2, 1 / 4), (4, 1 / 16))


@dataclass(frozen=True)
class Plan:
    """Which units make each batch, and its learning rate; `steps` of the rows are used."""

    rows: Int32[np.ndarray, "step unit"]
    valid: Bool[np.ndarray, "step unit"]
    lr: Float32[np.ndarray, "step"]
    steps: int

    def stretch(self, step: int, most: int, widths: tuple[int, ...]) -> tuple[int, int]:
        """The width of this step, and up to `most` steps on, the first one of another width."""
        stop = min(step + most, self.steps)
        counts = self.valid[step:stop].sum(axis=1)
        needed = [_narrowest(int(count), widths) for count in counts]
        changes = [i for i, width in enumerate(needed) if width != needed[0]]
        return needed[0], step + changes[0] if changes else stop


def batch_widths(
    batch: int, epochs: int, step_flops: float | int, platform: str
) -> tuple[int, ...]:
    """The widths to compile, widest first: those that save more than it takes to compile them.

    `epochs` are those of all iterations together; `step_flops` is the work of a full batch.
    """
    compiling = _COMPILING.get(platform, _COMPILING_ELSEWHERE)
    parts = [part for part, share in _SAVES if epochs * share * step_flops > compiling]
    return tuple(sorted({batch, *(-(-batch // part) for part in parts)}, reverse=True))


def _narrowest(count: int, widths: tuple[int, ...]) -> int:
    return min(width for width in widths if width >= count)


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
