"""Fitting a training step into memory: what to keep for the backward pass, and in what portions.

Estimates, on the safe side: they only choose between ways that give the same numbers.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jax.sharding import Mesh

from ttm_jax.config import Memory
from ttm_jax.hosts import exchange
from ttm_jax.models.transformer import Remat, TowerConfig
from ttm_jax.models.two_tower import TwoTowerConfig
from ttm_jax.training.trainable import Split

_BYTES = 4
_SHARE = 0.7  # of the memory there is; the rest is for the compiler's temporaries and the system


@dataclass(frozen=True)
class StepPlan:
    """How a step is computed, what it needs by estimate, and what is left beside the data."""

    remat: Remat
    chunk: int  # pairs (or images with their questions) at a time; 0: all at once
    bytes_needed: int
    bytes_available: int


def plan(
    config: TwoTowerConfig,
    split: Split,
    pairs: int,
    wish: Memory,
    mesh: Mesh,
    *,
    data_bytes: int = 0,
) -> StepPlan:
    """The fastest way that fits of a two-tower model."""
    activations, portions = partial(activation_bytes, config), (64, 32, 16, 8, 4)
    return fit(activations, split, pairs, wish, mesh, portions, data_bytes=data_bytes)


def fit(
    activations: Callable[[int, Remat], int],
    split: Split,
    count: int,
    wish: Memory,
    mesh: Mesh,
    portions: tuple[int, ...],
    *,
    data_bytes: int = 0,
) -> StepPlan:
    """Keep everything, keep less, then smaller portions, until it fits.

    `activations` says what the backward pass of so many examples keeps; `data_bytes` are taken on
    every device by images and captions.
    """
    available = int(_SHARE * available_bytes(mesh)) - data_bytes
    fixed = state_bytes(split)
    local = -(-count // mesh.size)
    remats = _ways(mesh) if wish.remat == "auto" else (wish.remat,)
    if wish.chunk >= 0:
        chunks = [wish.chunk]
    else:
        chunks = [0, *(size for size in portions if size < local)]
    for chunk in chunks:
        for remat in remats:
            need = fixed + activations(chunk or local, remat)
            if need <= available:
                return StepPlan(remat, chunk * mesh.size, need, available)
    return StepPlan(remats[-1], chunks[-1] * mesh.size, need, available)


def _ways(mesh: Mesh) -> tuple[Remat, ...]:
    """What to keep, fastest first. On the CPU keeping everything is not the fastest: writing the
    intermediates out and reading them back costs more than computing them again."""
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    return ("dots", "block") if on_cpu else ("none", "dots", "block")


def state_bytes(split: Split) -> int:
    """Parameters, and for the trained ones gradient, two moments and an update in flight."""
    trained = sum(x.size for x in split.trained.values())
    frozen = sum(x.size for x in split.frozen.values())
    return _BYTES * (5 * trained + frozen)


def activation_bytes(config: TwoTowerConfig, pairs: int, remat: Remat) -> int:
    """What the backward pass of this many pairs keeps."""
    towers = ((config.vision, config.image_tokens + 1), (config.text, config.text_length))
    return pairs * sum(tower_bytes(tower, tokens, remat) for tower, tokens in towers)


def tower_bytes(tower: TowerConfig, tokens: int, remat: Remat) -> int:
    """One example through one tower, counted in numbers a token and layer."""
    dense = 6 * tower.width + tower.mlp_dim  # q, k, v, out, residual, mlp in and out
    elementwise = 6 * tower.width + 3 * tower.mlp_dim  # norms, activation and its derivative
    attention = 3 * tower.heads * tokens  # logits, weights and their derivative
    layer = {"none": dense + elementwise + attention, "dots": dense, "block": tower.width}[remat]
    # Whatever is not kept is there for one layer at a time.
    working = dense + elementwise + attention
    return _BYTES * tokens * (tower.depth * layer + working)


def available_bytes(mesh: Mesh) -> int:
    """Memory of one device; of the CPU, what the host has free now. The least of all hosts: they
    must come to the same plan."""
    return min(exchange.from_all(_available_here(mesh)))


def _available_here(mesh: Mesh) -> int:
    device = mesh.local_devices[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return _host_bytes() // max(1, sum(d.platform == "cpu" for d in mesh.local_devices))


def _host_bytes() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
