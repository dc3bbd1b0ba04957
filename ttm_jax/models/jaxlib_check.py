"""A jaxlib that computes wrong numbers is refused before it computes any of ours.

jaxlib 0.10.2 miscomputes some fusions of a small product and a reduction on the CPU, by one percent
and without a word (jax issue 39103). An installation may hold it in spite of our requirements, so
the expression itself is tried, once per process: it takes a few hundredths of a second.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from ttm_jax.errors import InputError

_ROWS = 32_769  # the smallest number of rows that shows it
_GUARD = "XLA_FLAGS=--xla_cpu_experimental_ynn_fusion_type=-reduce"


@cache
def check_jaxlib() -> None:
    """Raise `InputError` if this jaxlib miscomputes squared lengths on the CPU."""
    if jax.default_backend() != "cpu":
        return
    matrix = np.arange(9, dtype=np.float32).reshape(3, 3)
    rows = np.arange(3 * _ROWS, dtype=np.float32).reshape(_ROWS, 3) / _ROWS
    expected = np.sum((rows @ matrix.T) ** 2, axis=1)
    if not np.allclose(_squared_lengths(matrix, rows), expected, rtol=1e-4):
        raise InputError(
            f"jaxlib {jax.lib.__version__} computes wrong numbers on this CPU (jax issue 39103); "
            f"install another version (pip install 'jax!=0.10.2'), or set {_GUARD}"
        )


@jax.jit
def _squared_lengths(matrix: jax.Array, rows: jax.Array) -> jax.Array:
    return jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2))(rows)
