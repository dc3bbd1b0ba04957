"""AdamW: PyTorch's numbers, in float32 as near to float64 as float32 can be."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ttm_jax.errors import InputError
from ttm_jax.training.optimizer import AdamState, AdamW, _bias_correction

EPS = np.finfo(np.float32).eps


@pytest.mark.parametrize("decay", [0.9, 0.98, 0.999, 0.9999])
def test_bias_correction_keeps_its_digits(decay):
    steps = np.arange(1, 5001)
    exact = -np.expm1(steps * np.log(decay))
    ours = jax.jit(jax.vmap(partial(_bias_correction, decay)))(jnp.asarray(steps, jnp.float32))
    np.testing.assert_allclose(np.asarray(ours, np.float64), exact, rtol=4 * EPS)


def test_no_memory_at_all():
    """With both betas 0 a step is g / (|g| + eps)."""
    adam = AdamW(0.0, 0.0, eps=0.5, weight_decay=0.0)
    params, gradient = {"p": jnp.zeros(2)}, {"p": jnp.array([1.5, -0.5])}
    after, state = adam.update(params, gradient, adam.init(params), jnp.float32(0.1))
    np.testing.assert_allclose(after["p"], [-0.075, 0.05], rtol=4 * EPS)
    assert state.count == 1


def by_hand(adam: AdamW, p: np.ndarray, gradients: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Loshchilov & Hutter's Algorithm 2 in float64, with eps outside the square root."""
    p, m, v = p.astype(np.float64), 0.0, 0.0
    for t, (g, lr) in enumerate(zip(gradients.astype(np.float64), rates, strict=True), start=1):
        m = adam.beta1 * m + (1 - adam.beta1) * g
        v = adam.beta2 * v + (1 - adam.beta2) * g * g
        step = m / (1 - adam.beta1**t) / (np.sqrt(v / (1 - adam.beta2**t)) + adam.eps)
        p = p - lr * (step + adam.weight_decay * p)
    return p


def by_us(adam: AdamW, p: np.ndarray, gradients: np.ndarray, rates: np.ndarray) -> np.ndarray:
    params = {"p": jnp.asarray(p)}
    state, update = adam.init(params), jax.jit(adam.update)
    for g, lr in zip(gradients, rates, strict=True):
        params, state = update(params, {"p": jnp.asarray(g)}, state, jnp.float32(lr))
    assert int(state.count) == len(gradients)
    return np.asarray(params["p"], np.float64)


def trajectory(steps: int, start: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters, gradients of very different sizes (down to eps), a falling learning rate."""
    rng = np.random.default_rng(steps)
    p = (start * rng.normal(size=4000)).astype(np.float32)
    sizes = 10.0 ** rng.uniform(-9, -1, size=p.shape)
    # The same sign throughout: where a moment cancels, no float32 is near float64.
    gradients = (rng.uniform(0.5, 1.5, (steps, *p.shape)) * sizes).astype(np.float32)
    return p, gradients, 1e-3 * 0.97 ** np.arange(steps)


@pytest.mark.parametrize("steps", [1, 2, 7, 60])
def test_updates_are_right_to_the_last_digits(steps):
    """From zero, so that the update itself is seen: optax's is off by 6e-6 here."""
    p, gradients, rates = trajectory(steps, start=0.0)
    adam = AdamW()
    exact, ours = by_hand(adam, p, gradients, rates), by_us(adam, p, gradients, rates)
    np.testing.assert_allclose(ours, exact, rtol=1e-6)


@pytest.mark.parametrize("steps", [1, 60])
@pytest.mark.parametrize("start", [0.05, 1.0])
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_at_least_as_near_to_float64_as_pytorch(steps, start, scale):
    torch = pytest.importorskip("torch")
    p, gradients, rates = trajectory(steps, start)
    rates = scale * rates

    def by_torch(dtype) -> np.ndarray:
        leaf = torch.nn.Parameter(torch.tensor(p, dtype=dtype))
        optimizer = torch.optim.AdamW([leaf], betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05)
        for g, lr in zip(gradients, rates, strict=True):
            optimizer.param_groups[0]["lr"] = float(lr)
            leaf.grad = torch.tensor(g, dtype=dtype)
            optimizer.step()
        return leaf.detach().double().numpy()

    adam = AdamW()
    exact = by_torch(torch.float64)
    np.testing.assert_allclose(by_hand(adam, p, gradients, rates), exact, rtol=1e-12, atol=1e-15)
    ours = np.abs(by_us(adam, p, gradients, rates) - exact)
    theirs = np.abs(by_torch(torch.float32) - exact)
    assert ours.max() <= theirs.max()
    assert ours.mean() <= theirs.mean()


def test_state_is_a_pytree_with_names():
    params = {"a": jnp.ones((2, 3)), "b": jnp.ones(4)}
    state = AdamW().init(params)
    names = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(state)]
    assert names == [".count", ".mu['a']", ".mu['b']", ".nu['a']", ".nu['b']"]
    assert isinstance(jax.tree.map(lambda x: x, state), AdamState)


def test_donated_memory_is_reused():
    """A step writes where it read: no second copy of parameters or moments."""
    params = {"p": jnp.ones((256, 256))}
    adam = AdamW()
    step = jax.jit(lambda s, g: adam.update(s[0], g, s[1], jnp.float32(1e-3)), donate_argnums=0)
    used = step.lower((params, adam.init(params)), params).compile().memory_analysis()
    assert used.alias_size_in_bytes >= 3 * params["p"].nbytes
    assert used.temp_size_in_bytes < params["p"].nbytes


@pytest.mark.parametrize("beta", [-0.1, 1.0])
def test_betas_are_checked(beta):
    with pytest.raises(InputError, match="beta2 is"):
        AdamW(beta2=beta)
