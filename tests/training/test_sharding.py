"""Copies that a training loop may give away, although nothing was compiled for them."""

import jax
import numpy as np
import pytest

from ttm_jax.training import sharding


@pytest.mark.parametrize("devices", [1, 8])
def test_a_copy_shares_no_memory_with_its_source(devices):
    mesh = sharding.make_mesh(jax.devices()[:devices])
    x = sharding.put(np.arange(1000, dtype=np.float32), sharding.replicated(mesh))
    copied = sharding.copy(x)
    assert copied.sharding == x.sharding

    def addresses(array: jax.Array) -> set[int]:
        return {part.data.unsafe_buffer_pointer() for part in array.addressable_shards}

    assert not addresses(copied) & addresses(x)
    jax.jit(lambda a: a + 1, donate_argnums=0)(copied)
    assert copied.is_deleted()
    np.testing.assert_array_equal(x, np.arange(1000))
