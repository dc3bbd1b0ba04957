"""Losses against their formulas, and padding that must change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ttm_jax.training.losses import sigmoid_loss, softmax_loss


def numpy_sigmoid(logits):
    n = len(logits)
    sign = 2 * np.eye(n) - 1
    return np.log1p(np.exp(-sign * logits)).sum(axis=1).mean()


def numpy_softmax(logits):
    def cross_entropy(x):
        return np.mean(np.log(np.exp(x).sum(axis=1)) - np.diag(x))

    return (cross_entropy(logits) + cross_entropy(logits.T)) / 2


CASES = [(sigmoid_loss, numpy_sigmoid), (softmax_loss, numpy_softmax)]


@pytest.mark.parametrize(("loss", "formula"), CASES)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_formula(loss, formula, n):
    logits = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32) * 3
    np.testing.assert_allclose(
        loss(jnp.asarray(logits), jnp.ones(n, bool)), formula(logits), rtol=1e-6
    )


@pytest.mark.parametrize("loss", [sigmoid_loss, softmax_loss])
@pytest.mark.parametrize("where", ["end", "between"])
def test_padding_changes_neither_loss_nor_gradient(loss, where):
    rng = np.random.default_rng(0)
    n, padded = 5, 8
    kept = np.arange(n) if where == "end" else np.array([0, 2, 3, 6, 7])
    logits = (rng.normal(size=(n, n)) * 5).astype(np.float32)
    big = (rng.normal(size=(padded, padded)) * 50).astype(np.float32)
    big[np.ix_(kept, kept)] = logits
    mask = np.isin(np.arange(padded), kept)
    value, gradient = jax.value_and_grad(loss)(jnp.asarray(logits), jnp.ones(n, bool))
    big_value, big_gradient = jax.value_and_grad(loss)(jnp.asarray(big), jnp.asarray(mask))
    np.testing.assert_allclose(big_value, value, rtol=1e-6)
    np.testing.assert_allclose(big_gradient[np.ix_(kept, kept)], gradient, atol=1e-6)
    outside = ~(mask[:, None] & mask[None, :])
    assert np.all(np.asarray(big_gradient)[outside] == 0)


def test_one_pair_has_no_softmax_loss():
    value, gradient = jax.value_and_grad(softmax_loss)(jnp.full((1, 1), 7.0), jnp.ones(1, bool))
    assert value == 0
    assert gradient[0, 0] == 0


@pytest.mark.parametrize("loss", [sigmoid_loss, softmax_loss])
def test_nothing_selected_is_zero_not_nan(loss):
    value, gradient = jax.value_and_grad(loss)(jnp.ones((3, 3)), jnp.zeros(3, bool))
    assert value == 0
    assert np.all(np.asarray(gradient) == 0)
