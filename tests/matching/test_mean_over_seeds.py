"""Mean and both standard deviations."""

import numpy as np
import pytest

from ttm_jax.matching.mean_over_seeds import population_std, spread

VALUES = [69.0, 70.5, 69.75, 69.75]


def test_spread_divides_by_n_minus_one():
    found = spread(VALUES)
    assert found["mean"] == pytest.approx(np.mean(VALUES))
    assert found["std"] == pytest.approx(np.std(VALUES, ddof=1))
    assert found["values"] == VALUES


def test_population_std_divides_by_n():
    assert population_std(VALUES) == pytest.approx(np.std(VALUES))


def test_one_value_has_no_deviation():
    assert spread([3.0])["std"] is None
    assert population_std([3.0]) is None
