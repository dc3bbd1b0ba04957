"""What a compiled program sends between devices, read from its text."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ttm_jax.training import sharding
from ttm_jax.training.optimizer import AdamW
from ttm_jax.training.task import Examples, Task
from ttm_jax.training.trainer import Trainer

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8,
          "u64": 8, "f64": 8}  # fmt: skip
_OPERATION = re.compile(rf"= (.*?) ({'|'.join(KINDS)})(?:-start)?\(")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_CALLED = re.compile(r"(?:body|to_apply|calls)=%?([\w.-]+)")
_TIMES = re.compile(r"known_trip_count\D*(\d+)")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


@dataclass(frozen=True)
class Collective:
    """One operation between devices, and the arrays that it leaves on each of them."""

    kind: str
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    times: int = 1
    """How often it runs: once per layer in a loop over layers."""

    @property
    def bytes(self) -> int:
        """Of its results on one device, all times together."""
        parts = zip(self.dtypes, self.shapes, strict=True)
        return self.times * sum(_BYTES[dtype] * math.prod(shape) for dtype, shape in parts)


def collectives(text: str) -> list[Collective]:
    """Every operation between devices in the text of a compiled program."""
    lines, entry = _computations(text)
    times: Counter[str] = Counter({entry: 1})
    found: list[Collective] = []
    queue = [entry]
    while queue:
        name = queue.pop()
        for line in lines.get(name, ()):
            found += _operation(line, times[name])
            trips = int(match[1]) if " while(" in line and (match := _TIMES.search(line)) else 1
            for called in _CALLED.findall(line):
                times[called] = times[name] * trips
                queue.append(called)
    return found


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """The lines of every computation, and the name of the one that is the program."""
    lines: dict[str, list[str]] = {}
    name = entry = ""
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            name = match[1]
            lines[name] = []
            entry = name if line.startswith("ENTRY") else entry
        elif name:
            lines[name].append(line)
    return lines, entry


def _operation(line: str, times: int) -> list[Collective]:
    match = _OPERATION.search(line)
    if match is None:
        return []
    arrays = _ARRAY.findall(match[1])
    dtypes = tuple(dtype for dtype, _ in arrays)
    shapes = tuple(tuple(int(n) for n in size.split(",") if n) for _, size in arrays)
    return [Collective(match[2], dtypes, shapes, times)]


def sent_bytes(found: list[Collective], devices: int) -> int:
    """What each device sends at least, with the usual ring algorithms.

    An all-reduce of n bytes sends 2 n (d - 1) / d, the others n (d - 1) / d.
    """
    share = (devices - 1) / devices
    return round(sum(c.bytes * share * (2 if c.kind == "all-reduce" else 1) for c in found))


def compile_step(task: Task, optimizer: AdamW, units: int, placement: Any = "replicated") -> Any:
    """One training step on `units` groups, compiled for the mesh of the task."""
    return lower_step(task, optimizer, units, placement).compile()


def lower_step(task: Task, optimizer: AdamW, units: int, placement: Any = "replicated") -> Any:
    """The same step before the compiler has changed it; it counts the operations of all devices."""
    state = Trainer(task, optimizer, placement).start(task.initial.trained)
    matchings = tuple(
        np.broadcast_to(np.arange(block.shape[0], dtype=np.int32), (len(block), block.shape[0]))
        for block in task.dataset.blocks  # type: ignore[attr-defined]
    )
    every = task.examples(matchings)
    rows = np.arange(units) % len(every.mask)
    batch = jax.tree.map(lambda x: x[rows], every)
    batch = sharding.put(batch, sharding.replicated(task.mesh))
    step = jax.jit(_step(task, optimizer), donate_argnums=0)
    return step.lower((state.trained, state.optimizer), task.initial.frozen, task.data, batch)


def _step(task: Task, optimizer: AdamW) -> Callable:
    def step(state: Any, frozen: Any, data: Any, batch: Examples) -> Any:
        loss, gradient = task.objective.value_and_grad(
            state[0], frozen, data, batch, jax.random.key(0)
        )
        return loss, optimizer.update(state[0], gradient, state[1], jnp.float32(1e-5))

    return step
