"""The in-place stack: same results as a plain loop, without a second copy of the parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ttm_jax.models.layer_stack import run_stack
from ttm_jax.models.transformer import rematerialise

DEPTH, WIDTH, BATCH, TOKENS = 5, 6, 3, 4


def layer(x, p):
    return x + jnp.tanh(jnp.einsum("bnw,wv->bnv", x, p["kernel"]) + p["bias"][None, None])


def last(x, p, position):
    return layer(jnp.take_along_axis(x, position[:, None, None], axis=1), p)


def plain(x, stack, position):
    for i in range(DEPTH - 1):
        x = layer(x, jax.tree.map(lambda p, i=i: p[i], stack))
    return last(x, jax.tree.map(lambda p: p[-1], stack), position)


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    stack = {
        "kernel": jnp.asarray(0.3 * rng.standard_normal((DEPTH, WIDTH, WIDTH)), jnp.float32),
        "bias": jnp.asarray(rng.standard_normal((DEPTH, WIDTH)), jnp.float32),
    }
    x = jnp.asarray(rng.standard_normal((BATCH, TOKENS, WIDTH)), jnp.float32)
    return x, stack, jnp.asarray([0, 3, 1])


def assert_close(a, b):
    def one(p, q):
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-6 * np.abs(q).max())

    jax.tree.map(one, a, b)


@pytest.mark.parametrize("remat", ["none", "dots", "block"])
def test_values_and_gradients_are_those_of_a_loop(inputs, remat):
    x, stack, position = inputs
    step = rematerialise(layer, remat)

    def ours(x, stack):
        return jnp.sum(run_stack(step, last, x, stack, position) ** 2)

    def theirs(x, stack):
        return jnp.sum(plain(x, stack, position) ** 2)

    assert_close(
        jax.jit(jax.value_and_grad(ours, (0, 1)))(x, stack),
        jax.value_and_grad(theirs, (0, 1))(x, stack),
    )


def test_only_what_is_trained_has_a_gradient(inputs):
    x, stack, position = inputs

    def loss(function, bias):
        return jnp.sum(function(x, {**stack, "bias": bias}, position) ** 2)

    def ours(x, stack, position):
        return run_stack(layer, last, x, stack, position)

    gradient = jax.grad(loss, argnums=1)
    assert_close(gradient(ours, stack["bias"]), gradient(plain, stack["bias"]))
    program = str(jax.make_jaxpr(lambda bias: gradient(ours, bias))(stack["bias"]))
    # The backward loop carries the gradient of the bias, but not that of the kernel.
    assert f"f32[{DEPTH},{WIDTH}] = broadcast_in_dim" in program
    assert f"f32[{DEPTH},{WIDTH},{WIDTH}] = broadcast_in_dim" not in program


def test_parameters_are_not_kept_twice(inputs):
    x, stack, position = inputs
    _, pull = jax.vjp(lambda x, s: run_stack(layer, last, x, s, position), x, stack)
    kept = [leaf.shape for leaf in jax.tree.leaves(pull)]
    assert kept.count((DEPTH, WIDTH, WIDTH)) == 1
    assert (DEPTH - 1, WIDTH, WIDTH) not in kept


def test_a_step_takes_less_memory_than_a_plain_scan():
    """Fails if a new JAX version no longer lets the stack find its parameters among the residuals.

    The plain version runs `lax.scan` over a copy of all layers but the last, and concatenates the
    gradients: with many parameters and a small batch it needs that much more temporary memory.
    """
    depth, width = 6, 256
    stack = {
        "kernel": jnp.zeros((depth, width, width), jnp.float32),
        "bias": jnp.zeros((depth, width), jnp.float32),
    }
    x, position = jnp.zeros((1, 2, width), jnp.float32), jnp.asarray([0])

    def scanned(x, stack, position):
        first = jax.tree.map(lambda p: p[:-1], stack)
        x, _ = jax.lax.scan(lambda x, p: (layer(x, p), None), x, first)
        return last(x, jax.tree.map(lambda p: p[-1], stack), position)

    def ours(x, stack, position):
        return run_stack(layer, last, x, stack, position)

    def temporary(function):
        gradient = jax.jit(jax.grad(lambda x, s: jnp.sum(function(x, s, position) ** 2), (0, 1)))
        return gradient.lower(x, stack).compile().memory_analysis().temp_size_in_bytes

    one_layer = 4 * width * width
    assert temporary(scanned) > temporary(ours) + (depth - 1) * one_layer
    assert temporary(ours) < 2 * one_layer
