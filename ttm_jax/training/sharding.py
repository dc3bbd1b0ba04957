"""Where arrays live: one mesh axis over all devices, data-parallel.

The contrastive loss needs the whole batch, so the batch is sharded and the compiler gathers the
embeddings. Parameters are replicated, or each split over its largest axis ("sharded").
"""

from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ttm_jax.config import Placement

AXIS = "data"
_SMALL = 2**14  # leaves with fewer numbers than this are not worth splitting


def make_mesh(devices: list | None = None) -> Mesh:
    """All devices of all hosts in a row. Auto axes: the compiler decides on the collectives."""
    devices = jax.devices() if devices is None else devices
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, P())


def over_batch(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, P(AXIS))


def shard_batch(x: jax.Array, mesh: Mesh) -> jax.Array:
    """Inside jit: split the leading axis over the devices."""
    return jax.lax.with_sharding_constraint(x, over_batch(mesh))


def param_shardings(tree: Any, mesh: Mesh, placement: Placement) -> Any:
    """A sharding for every leaf of a parameter or optimizer-state tree."""

    def leaf(x: Any) -> NamedSharding:
        if placement == "replicated" or x.size < _SMALL:
            return replicated(mesh)
        axes = [a for a, size in enumerate(x.shape) if size % mesh.size == 0]
        if not axes:
            return replicated(mesh)
        widest = max(axes, key=lambda a: x.shape[a])
        return NamedSharding(mesh, P(*(AXIS if a == widest else None for a in range(x.ndim))))

    return jax.tree.map(leaf, tree)


def put(tree: Any, sharding: Any) -> Any:
    """Host arrays onto the mesh; every process holds the same host arrays."""
    return jax.device_put(tree, sharding)


def to_host(x: jax.Array) -> np.ndarray:
    return np.asarray(x)


def wait_for_all(reason: str) -> None:
    """Let every process of a pod get here before any goes on."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(reason)


def agree(flag: bool) -> bool:
    """Whether any process of a pod says so: all take the same turn, or they would wait for ever."""
    if jax.process_count() == 1:
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
