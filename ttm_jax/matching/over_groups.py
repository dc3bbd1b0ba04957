"""Apply a function of one group to all groups, one chunk of groups at a time.

The function receives arrays whose last axis is the group axis of the chunk. It consists of
elementwise arithmetic and reductions over the leading axes, and a chunk fits in the CPU cache.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Shaped

_CHUNK = 8_192

GroupFunction = Callable[..., tuple[Any, ...]]


def over_groups(
    function: GroupFunction, *arrays: Shaped[np.ndarray, "group ..."]
) -> tuple[Shaped[np.ndarray, " group"], ...]:
    """The results of `function` for every group; the first axis of `arrays` is the group axis."""
    results = []
    for start in range(0, len(arrays[0]), _CHUNK):
        parts = (array[start : start + _CHUNK] for array in arrays)
        results.append(function(*(np.ascontiguousarray(np.moveaxis(p, 0, -1)) for p in parts)))
    return tuple(np.concatenate(column) for column in zip(*results, strict=True))
