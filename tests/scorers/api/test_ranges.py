"""Numbers outside their range: NaN, infinite, negative, zero, huge."""

import math

import pytest

from ttm_jax.errors import InputError
from ttm_jax.scorers.api import Prices, RateLimits, RetryPolicy, check_budget
from ttm_jax.scorers.api.ranges import check_range

PRICES = Prices(1.0, 1.0)
ALWAYS_BAD = [math.nan, math.inf, -math.inf, -1.0, 1e300]


@pytest.mark.parametrize("value", ALWAYS_BAD)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("requests_per_minute", lambda x: RateLimits(requests_per_minute=x)),
        ("tokens_per_minute", lambda x: RateLimits(tokens_per_minute=x)),
        ("timeout", lambda x: RetryPolicy(timeout=x)),
        ("backoff", lambda x: RetryPolicy(backoff=x)),
        ("longest_backoff", lambda x: RetryPolicy(longest_backoff=x)),
        ("longest_retry_after", lambda x: RetryPolicy(longest_retry_after=x)),
        ("price_input", lambda x: Prices(x, 1.0)),
        ("price_output", lambda x: Prices(1.0, x)),
        ("price_cached_input", lambda x: Prices(1.0, 1.0, x)),
        ("budget", lambda x: check_budget(x, PRICES)),
    ],
)
def test_bad_numbers_are_refused(name, make, value):
    with pytest.raises(InputError, match=f"`{name}` is .*; expected a number from"):
        make(value)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("concurrency", lambda x: RateLimits(concurrency=x)),
        ("retries", lambda x: RetryPolicy(retries=x)),
    ],
)
@pytest.mark.parametrize("value", [-1, 10**9, 10**30])
def test_bad_integers_are_refused(name, make, value):
    with pytest.raises(InputError, match=f"`{name}` is {value}; expected a number from"):
        make(value)


def test_zero_is_kept_where_it_is_allowed():
    policy = RetryPolicy(retries=0, backoff=0.0)
    assert (policy.retries, policy.backoff) == (0, 0.0)
    free = Prices(0.0, 0.0, 0.0)
    assert free.known
    check_budget(1.0, free)


def test_none_means_not_set():
    check_range("x", None, 0, 1)
