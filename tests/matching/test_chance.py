"""The paper's four propositions on random guessing, by exact enumeration and by sampling.

GroupScore depends only on the order of the entries of the matrix, and for independent draws from
one continuous distribution all orders are equally likely: counting orders gives the probability.

GroupMatch compares sums, which are not determined by the order. But a random matrix is as likely as
the same matrix with permuted captions. Over all k! permutations of the captions of *any* matrix
with a unique best matching, the true matching is the best one in exactly (k - m)! of them: those
that move the m captions of the best matching to their places. So the fraction is (k - m)! / k! for
every such matrix, and hence on average.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from ttm_jax.matching import chance
from ttm_jax.matching.checks import diagonal
from ttm_jax.matching.metrics import evaluate, evaluate_global


def count(scores: np.ndarray, metric: str) -> int:
    return evaluate(scores, diagonal(scores)).rates()[metric].count


@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (1, 5), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3)])
def test_propositions_1_and_3_by_all_orders(shape):
    orders = np.array(list(itertools.permutations(range(math.prod(shape)))), np.float32)
    found = Fraction(count(orders.reshape(-1, *shape), "group_score"), len(orders))
    m, k = min(shape), max(shape)
    stated = (
        Fraction(math.factorial(k - 1), math.factorial(2 * k - 1)) if m == k else Fraction(1, k**m)
    )
    assert found == stated
    assert chance.group_score(*shape) == pytest.approx(float(stated), rel=1e-15)


@pytest.mark.parametrize("metric", ["text_score", "image_score", "individual_match"])
def test_the_other_chance_levels_by_all_orders(metric):
    orders = np.array(list(itertools.permutations(range(4))), np.float32).reshape(-1, 2, 2)
    rate = evaluate(orders, diagonal(orders)).rates()[metric]
    assert Fraction(rate.count, rate.of) == {"individual_match": Fraction(1, 2)}.get(
        metric, Fraction(1, 4)
    )
    assert rate.chance == rate.count / rate.of


@pytest.mark.parametrize("shape", [(m, k) for m in range(1, 5) for k in range(m, 7)])
def test_propositions_2_and_4_by_all_exchanges(shape):
    m, k = shape
    scores = np.random.default_rng(m * 10 + k).normal(size=shape).astype(np.float32)
    exchanges = np.array(list(itertools.permutations(range(k))))
    every = np.moveaxis(scores[:, exchanges], 1, 0)  # [exchange, image, text]
    assert count(every, "group_match") == math.factorial(k - m)
    assert count(every.transpose(0, 2, 1), "group_match") == math.factorial(k - m)
    stated = math.factorial(k - m) / math.factorial(k)
    assert chance.group_match(*shape) == pytest.approx(stated, rel=1e-15)


DRAWS = 200_000
# In standard errors: one of the 40 comparisons below fails by chance once in 3,700 sets of seeds
# (two-sided normal tail of 5: 5.7e-7 each; the counts are large enough for the normal limit).
BOUND = 5.0


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 3), (1, 4), (4, 4), (3, 5), (4, 2), (2, 6)])
def test_all_chance_levels_by_drawing(shape):
    draws = DRAWS // 4 if math.prod(shape) > 12 else DRAWS
    scores = np.random.default_rng(20_251_000 + shape[0] * 10 + shape[1]).uniform(
        size=(draws, *shape)
    )
    for name, rate in evaluate(scores, diagonal(scores)).rates().items():
        # individual match counts m images per group; its error is at most that of one per group
        spread = math.sqrt(rate.chance * (1 - rate.chance) / draws)
        assert abs(rate.percent / 100 - rate.chance) <= BOUND * spread, name


@pytest.mark.parametrize("shape", [(30, 30), (20, 40), (40, 20)])
def test_global_chance_levels_by_drawing(shape):
    rng = np.random.default_rng(7)
    draws = 300
    truth = np.full(shape[0], -1)
    truth[: min(shape)] = np.arange(min(shape))
    shares: dict[str, list[float]] = {"global_match": [], "row_argmax": []}
    for _ in range(draws):
        found = evaluate_global(rng.uniform(size=shape), truth)
        for name, rate in found.rates.items():
            shares[name].append(rate.count / rate.of)
    for name, rate in found.rates.items():
        mean, error = np.mean(shares[name]), np.std(shares[name]) / math.sqrt(draws)
        assert abs(mean - rate.chance) <= BOUND * error, name
