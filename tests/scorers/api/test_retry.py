"""Delays between attempts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.retry import RetryPolicy


@pytest.mark.parametrize(
    "changes", [{"timeout": 0.0}, {"retries": -1}, {"backoff": -1.0}, {"longest_retry_after": 0.0}]
)
def test_policies_that_are_refused(changes):
    (name,) = changes
    with pytest.raises(InputError, match=f"`{name}`"):
        RetryPolicy(**changes)


@given(st.integers(1, 10_000), st.integers(0, 2**32))
def test_full_jitter_below_a_ceiling_that_doubles(attempt, seed):
    policy = RetryPolicy(backoff=1.0, longest_backoff=60.0)
    delay = policy.delay(attempt, None, random.Random(seed))
    assert 0 <= delay <= min(60.0, 2.0 ** min(attempt - 1, 10))


def test_jitter_fills_the_whole_range():
    rng = random.Random(0)
    delays = [RetryPolicy().delay(4, None, rng) for _ in range(500)]
    assert min(delays) < 0.5
    assert max(delays) > 7.5


@given(st.floats(0, 300), st.integers(1, 20), st.integers(0, 2**32))
def test_a_delay_that_the_server_asked_for_is_never_shortened(asked, attempt, seed):
    delay = RetryPolicy().delay(attempt, asked, random.Random(seed))
    assert asked <= delay <= asked + 1.0
