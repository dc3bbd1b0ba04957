"""Where arrays live: one mesh axis over all devices, data-parallel.

The contrastive loss needs the whole batch, so the batch is sharded and the compiler gathers the
embeddings. Parameters are replicated, or each split over its largest axis ("sharded").
"""

import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ttm_jax.config import Placement
from ttm_jax.hosts import exchange, this_host

AXIS = "data"
_SMALL = 2**14  # leaves with fewer numbers than this are not worth splitting


def make_mesh(devices: list | None = None) -> Mesh:
    """All devices of all hosts in a row. Auto axes: the compiler decides on the collectives."""
    devices = this_host.devices() if devices is None else devices
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


def put(tree: Any, sharding: Any, what: str = "arrays") -> Any:
    """Host arrays onto the mesh. All hosts hold the same, which is checked; `what` names it."""
    if this_host.count() == 1:
        return jax.device_put(tree, sharding)
    exchange.agree_on(what, _checksums(tree))
    if isinstance(sharding, NamedSharding):
        return jax.tree.map(lambda x: _put_part(x, sharding), tree)
    return jax.tree.map(_put_part, tree, sharding)


def copy(x: jax.Array) -> jax.Array:
    """The same values in memory that nobody else holds; on one host, nothing is compiled."""
    if this_host.count() > 1:
        return jnp.copy(x)
    return jax.device_put(x, x.sharding, may_alias=False)


def _put_part(x: Any, where: NamedSharding) -> jax.Array:
    """What the devices of this host hold of an array. Nothing is sent to other hosts."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        return jax.device_put(x, where)
    whole = np.asarray(x)
    return jax.make_array_from_callback(whole.shape, where, lambda index: whole[index])


def _checksums(tree: Any) -> str:
    value = 0
    for x in jax.tree.leaves(tree):
        if not isinstance(x, jax.Array) or x.is_fully_addressable:
            value = zlib.crc32(np.ascontiguousarray(x).tobytes(), value)
    return f"{value:08x}"


def to_host(x: jax.Array) -> np.ndarray:
    return np.asarray(x)


def agree(flag: bool) -> bool:
    """Whether any process of a pod says so: all take the same turn, or they would wait for ever."""
    if this_host.count() == 1:
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
