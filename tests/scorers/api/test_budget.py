"""The budget is never exceeded, and its margin follows the replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.budget import BudgetGate
from ttm_jax.scorers.api.cost import Prices, Usage


def test_a_budget_needs_prices():
    with pytest.raises(InputError, match="`price_input`"):
        BudgetGate(Prices(), budget=5.0)
    with pytest.raises(InputError, match="`budget`"):
        BudgetGate(Prices(1.0, 1.0), budget=0.0)


@given(
    costs=st.lists(st.integers(960, 1040), min_size=1, max_size=60),
    budget=st.floats(0.0005, 0.06),
    at_once=st.integers(1, 20),
)
def test_spent_and_in_flight_never_exceed_the_budget(costs, budget, at_once):
    """Requests of 960 to 1040 tokens, estimated at 1000, at a dollar per million, overlapping."""
    estimate = Usage(1000, 0, 0)
    gate = BudgetGate(Prices(1.0, 1.0), budget)
    in_flight: list[tuple[float, int]] = []
    for cost in costs:
        if len(in_flight) == at_once:
            reserved, used = in_flight.pop(0)
            gate.settle(reserved, estimate, Usage(used, 0, 0))
        reserved = gate.try_reserve(estimate)
        if reserved is None:
            break
        in_flight.append((reserved, cost))
    for reserved, used in in_flight:
        gate.settle(reserved, estimate, Usage(used, 0, 0))
    assert gate.reserved == pytest.approx(0.0, abs=1e-12)
    assert gate.spent <= budget


def test_the_margin_follows_the_replies():
    gate = BudgetGate(Prices(1.0, 1.0), budget=1.0)
    estimate = Usage(1000, 0, 0)
    assert gate.reservation(estimate) == pytest.approx(2e-3)
    assert gate.try_reserve(estimate) == pytest.approx(2e-3)
    assert gate.try_reserve(estimate) is None, "the first goes alone"
    gate.settle(2e-3, estimate, Usage(1500, 1500, 0))
    assert gate.reservation(estimate) == pytest.approx(1.1 * 1.5e-3)
    assert gate.spent == pytest.approx(1.5e-3)
    assert gate.add_lost(estimate) == Usage(1500, 0, 0), "lost at what such a request takes"
    assert gate.spent == pytest.approx(3e-3)
    assert gate.expected_total(remaining=10, each=0.0) == pytest.approx(3e-3 + 10 * 1.5e-3)


def test_describe_tells_cost_and_estimate_or_tokens():
    gate = BudgetGate(Prices(2.0, 8.0), used=Usage(1_000_000, 0, 1))
    assert gate.describe(6.0) == "$2.00 of about $6.00"
    assert BudgetGate(Prices(), used=Usage(1500, 0, 2)).describe(0.0) == "1,502 tokens"
