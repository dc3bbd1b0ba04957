"""Apply a function of one group to every group: in numpy, or compiled and vmapped where that pays.

The function is written once, as `function(xp, *arrays)` with xp either numpy or jax.numpy:
elementwise arithmetic, and reductions over axes that are counted from the front; its results are
numbers, not arrays. JAX runs it on one group at a time (`vmap`); numpy on a chunk of groups, which
come as one more axis at the end. Both do the same operations in the same order in float64, so that
the results agree to the last bit.

Numpy is the rule: compiling takes 0.2 to 0.5 s for each shape, more than numpy needs for the groups
of any benchmark, and it needs JAX's 64-bit mode and a CPU device, which a TPU process may not have.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Shaped

# From here on the compiled version is used, where there is one.
COMPILE_FROM = 100_000
_PIECE = 16_384  # groups in one compiled call, at least; more only in powers of 2
_CHUNK = 8_192  # groups in one numpy call: its arrays stay in the processor's cache

# XLA reads subnormal numbers as 0 (float32: below 1.2e-38). Pieces with nearly as small ones, whose
# differences could be subnormal, stay with numpy.
_SMALLEST_IN_JAX = 1e-30

GroupFunction = Callable[..., tuple[Any, ...]]


def over_groups(
    function: GroupFunction, *arrays: Shaped[np.ndarray, "group ..."]
) -> tuple[Shaped[np.ndarray, " group"], ...]:
    """`function(xp, *arrays_of_one_group)` for every group; the first axis counts the groups.

    `function` must be a plain function of a module: compiled versions are kept by its identity.
    """
    if len(arrays[0]) >= COMPILE_FROM and _compiles_in_float64():
        return in_jax(function, *arrays)
    return in_numpy(function, *arrays)


def in_numpy(
    function: GroupFunction, *arrays: Shaped[np.ndarray, "group ..."]
) -> tuple[Shaped[np.ndarray, " group"], ...]:
    results = []
    for start in range(0, len(arrays[0]), _CHUNK):
        parts = (array[start : start + _CHUNK] for array in arrays)
        results.append(function(np, *(np.ascontiguousarray(np.moveaxis(p, 0, -1)) for p in parts)))
    return _joined(results)


def in_jax(
    function: GroupFunction, *arrays: Shaped[np.ndarray, "group ..."]
) -> tuple[Shaped[np.ndarray, " group"], ...]:
    import jax

    groups = len(arrays[0])
    device = jax.local_devices(backend="cpu")[0]
    piece = _PIECE
    while piece * 12 < groups:  # few calls, few shapes to compile for, and little to fill up
        piece *= 2
    results = []
    with jax.enable_x64(True):
        for start in range(0, groups, piece):
            parts = [array[start : start + piece] for array in arrays]
            if any(_has_tiny(part) for part in parts):
                results.append(in_numpy(function, *parts))
                continue
            missing = piece - len(parts[0])
            if missing:  # the last piece is filled up with its own first group
                parts = [np.concatenate([p, np.repeat(p[:1], missing, axis=0)]) for p in parts]
            results.append(_compiled(function)(*jax.device_put(parts, device)))
    return tuple(array[:groups] for array in _joined(results))


def _has_tiny(array: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return False
    size = np.abs(array)
    return bool(size.min() < _SMALLEST_IN_JAX and ((size < _SMALLEST_IN_JAX) & (size > 0)).any())


@cache
def _compiled(function: GroupFunction) -> GroupFunction:
    import jax
    import jax.numpy as jnp

    return jax.jit(jax.vmap(partial(function, jnp)))


@cache
def _compiles_in_float64() -> bool:
    """Whether this process can: JAX 0.8 or newer, with a CPU device beside its accelerators."""
    import jax

    try:
        return hasattr(jax, "enable_x64") and bool(jax.local_devices(backend="cpu"))
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        return False


def _joined(results: list[tuple[Any, ...]]) -> tuple[np.ndarray, ...]:
    columns = zip(*results, strict=True)
    return tuple(np.concatenate([np.asarray(part) for part in column]) for column in columns)
