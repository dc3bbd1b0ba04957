import math

import numpy as np
import pytest

from ttm_jax.errors import InputError
from ttm_jax.training.schedules import learning_rates, tau_schedule


@pytest.mark.parametrize(
    ("kind", "tau_1", "tau_T", "iterations", "expected"),
    [
        ("linear", 2.0, 0.0, 5, [2.0, 1.5, 1.0, 0.5, 0.0]),
        ("linear", 0.5, 0.1, 3, [0.5, 0.3, 0.1]),
        ("cosine", 2.0, 0.0, 3, [2.0, 1.0, 0.0]),
        ("cosine", 2.0, 0.1, 5, [2.0, 0.1 + 0.95 * (1 + math.sqrt(0.5)), 1.05,
                                 0.1 + 0.95 * (1 - math.sqrt(0.5)), 0.1]),
        ("constant", 2.0, 0.0, 3, [2.0, 2.0, 2.0]),
        ("ascending", 2.0, 0.0, 3, [0.0, 1.0, 2.0]),
        ("ascending", 0.0, 2.0, 3, [0.0, 1.0, 2.0]),
        ("linear", 2.0, 0.0, 1, [2.0]),
        ("cosine", 2.0, 0.0, 1, [2.0]),
        ("constant", 2.0, 0.0, 1, [2.0]),
        ("ascending", 2.0, 0.0, 1, [0.0]),
    ],
)  # fmt: skip
def test_tau(kind, tau_1, tau_T, iterations, expected):
    found = tau_schedule(kind, tau_1, tau_T, iterations)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    if kind != "cosine":
        assert found[0] == expected[0]
        assert found[-1] == expected[-1]


def test_the_cosine_ends_exactly_at_zero():
    """tau_T = 0 must select every untied group: a last tau of 1e-17 would be as good, -0 too."""
    assert tau_schedule("cosine", 2.0, 0.0, 10)[-1] == 0.0


def test_the_cosine_is_the_formula():
    iterations, tau_1, tau_T = 10, 2.3, 0.1
    for t, tau in enumerate(tau_schedule("cosine", tau_1, tau_T, iterations)):
        formula = tau_T + (tau_1 - tau_T) * (1 + math.cos(math.pi * t / (iterations - 1))) / 2
        assert tau == pytest.approx(formula, rel=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("linear", 2.0, 0.0, 0), "iterations is 0"),
        (("linear", math.nan, 0.0, 3), "tau goes from nan"),
        (("linear", 1.0, math.inf, 3), "two finite numbers"),
    ],
)
def test_a_bad_tau_schedule_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        tau_schedule(*arguments)


def test_learning_rate_of_the_first_iteration():
    found = learning_rates(1e-5, iteration=0, steps=4)
    shares = [1.0, 0.1 + 0.45 * (1 + math.sqrt(0.5)), 0.55, 0.1 + 0.45 * (1 - math.sqrt(0.5))]
    np.testing.assert_allclose(found, 1e-5 * np.array(shares), rtol=1e-14)


def test_every_iteration_restarts_lower():
    for iteration in range(4):
        found = learning_rates(2e-5, iteration, steps=50)
        assert found[0] == pytest.approx(2e-5 * 0.95**iteration, rel=1e-14)
        assert (np.diff(found) < 0).all()
        assert found[-1] > 0.1 * found[0]  # the floor lies one step beyond the last
        np.testing.assert_allclose(found / found[0], learning_rates(1.0, 0, 50), rtol=1e-13)


def test_one_step_and_no_step():
    np.testing.assert_allclose(learning_rates(1e-5, 2, 1), [1e-5 * 0.95**2], rtol=1e-14)
    assert learning_rates(1e-5, 2, 0).shape == (0,)


def test_restart_and_floor_are_options():
    np.testing.assert_allclose(learning_rates(1.0, 3, 2, restart=0.5, floor=0.0), [0.125, 0.0625])


@pytest.mark.parametrize(
    "arguments", [{"lr": 0.0}, {"iteration": -1}, {"steps": -1}, {"floor": 1.5}, {"restart": 0.0}]
)
def test_a_bad_learning_rate_is_refused(arguments):
    with pytest.raises(InputError):
        learning_rates(**({"lr": 1e-5, "iteration": 0, "steps": 3} | arguments))
