"""Decoys: independent of labels and order, honest about noise, cautious about knowledge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from ttm_jax.errors import InputError
from ttm_jax.matching.decoys import (
    Margins,
    draw_partners,
    estimate_accuracy,
    estimate_precision,
    estimate_value,
    knows_nothing,
    tau_for_precision,
)
from ttm_jax.matching.match import match_groups


def captions(count: int, texts: int = 2) -> list[frozenset[str]]:
    return [frozenset(f"{group} {text}" for text in range(texts)) for group in range(count)]


def noise(seed: int, groups: int = 60, draws: int = 10, shape: tuple[int, int] = (2, 2)) -> Margins:
    """Every pair has a score of its own: the model knows nothing."""
    scores = np.random.default_rng(seed).normal(size=(groups * (1 + draws), *shape))
    margin = match_groups(scores).margin.reshape(groups, 1 + draws)
    return Margins(margin[:, 0], margin[:, 0] > 0, margin[:, 1:], np.full(groups, 0.5))


@given(st.permutations(range(12)), st.integers(0, 5))
def test_partners_do_not_depend_on_the_order_of_groups(order, seed):
    texts, pictures = captions(12), [frozenset({group}) for group in range(12)]
    ids = [f"group {i}" for i in range(12)]
    usual = draw_partners(ids, texts, pictures, 3, seed)
    moved = draw_partners(
        [ids[i] for i in order], [texts[i] for i in order], [pictures[i] for i in order], 3, seed
    )
    for place, group in enumerate(order):
        assert [texts[i] for i in usual[group]] == [texts[order[i]] for i in moved[place]]


def test_partners_share_nothing_and_differ_by_seed():
    texts = [frozenset({f"{group // 2}", f"own {group}"}) for group in range(40)]
    pictures = [frozenset({group % 5}) for group in range(40)]
    ids = [str(group) for group in range(40)]
    partners = draw_partners(ids, texts, pictures, 4, 0)
    for group, others in enumerate(partners):
        assert len(set(others.tolist())) == 4
        for other in others:
            assert not texts[group] & texts[other]
            assert not pictures[group] & pictures[other]
    assert (partners != draw_partners(ids, texts, pictures, 4, 1)).any()


def test_fewer_groups_than_draws():
    found = draw_partners(["a", "b", "c"], captions(3), [frozenset({i}) for i in range(3)], 3, 0)
    assert [sorted(row.tolist()) for row in found] == [[1, 2], [0, 2], [0, 1]]


def test_a_group_without_decoys():
    pictures = [frozenset({0, 1}), frozenset({0}), frozenset({1})]
    with pytest.raises(InputError, match="group 'a' has no decoys: all other groups share"):
        draw_partners(["a", "b", "c"], captions(3), pictures, 3, 0)


def test_of_noise_the_p_values_are_uniform():
    found = [knows_nothing(noise(seed)) for seed in range(300)]
    assert kstest(found, "uniform").pvalue > 0.01


@pytest.mark.parametrize("coverage", [0.2, 0.5])
def test_of_noise_the_estimate_is_chance(coverage):
    inside = 0
    for seed in range(60):
        margins = noise(seed)
        tau = float(np.quantile(margins.groups, 1 - coverage))
        found = estimate_precision(margins, tau)
        inside += found.low <= 0.5 <= found.high
    assert inside >= 51  # 95 % of 60 would be 57


def test_of_knowledge_the_estimates_are_below_the_truth():
    """70 % of the groups are known, with large margins; the others are noise."""
    rng = np.random.default_rng(0)
    margins = noise(1, groups=400)
    known = rng.random(400) < 0.7
    known_margins = np.where(known, margins.groups + 3, margins.groups)
    made = Margins(known_margins, margins.usable, margins.decoys, margins.chance)
    assert knows_nothing(made) < 1e-6
    accuracy = estimate_accuracy(made)
    assert accuracy.low <= 0.85 <= accuracy.high  # 0.7 + 0.3 / 2
    right = known | (rng.random(400) < 0.5)
    assert 0.85 < estimate_precision(made, 3.0).value <= right[known_margins >= 3.0].mean()


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0.5, 0.99))
def test_the_threshold_for_a_precision_has_it(seed, wanted):
    margins = noise(seed)
    made = Margins(margins.groups + 1, margins.usable, margins.decoys, margins.chance)
    tau = tau_for_precision(made, wanted)
    assert tau is None or estimate_value(made, tau) >= wanted


def test_ties_are_never_counted_as_selected():
    margins = noise(0)
    none = Margins(margins.groups, np.zeros(60, bool), margins.decoys, margins.chance)
    assert estimate_precision(none, 0.0).value == 0.0
    assert knows_nothing(none) > 0.99
