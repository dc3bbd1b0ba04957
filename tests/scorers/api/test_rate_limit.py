"""The rate limiter: no minute exceeds the limits, and pauses hold all requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.rate_limit import RateLimiter, RateLimits


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    "changes", [{"concurrency": 0}, {"requests_per_minute": 0.0}, {"tokens_per_minute": -1.0}]
)
def test_limits_that_are_refused(changes):
    (name,) = changes
    with pytest.raises(InputError, match=f"`{name}`"):
        RateLimits(**changes)


@given(
    rate=st.integers(1, 600),
    gaps=st.lists(st.floats(0, 30), min_size=1, max_size=100),
)
def test_no_minute_has_more_requests_than_the_limit(rate, gaps):
    clock = Clock()
    limiter = RateLimiter(RateLimits(requests_per_minute=float(rate)), clock)
    starts = []
    for gap in gaps:
        clock.now += gap
        starts.append(clock.now + limiter.reserve(1))
    assert starts == sorted(starts)
    for first in starts:
        inside = sum(first <= start < first + 60 - 1e-6 for start in starts)
        assert inside <= rate


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000)), min_size=1, max_size=100))
def test_no_minute_has_more_tokens_than_the_limit(requests):
    clock = Clock()
    limiter = RateLimiter(RateLimits(tokens_per_minute=10_000.0), clock)
    starts = []
    for gap, tokens in requests:
        clock.now += gap
        starts.append((clock.now + limiter.reserve(tokens), tokens))
    for first, _ in starts:
        inside = [tokens for start, tokens in starts if first <= start < first + 60]
        assert sum(inside[:-1]) <= 10_000 + 1e-6  # the last one is paid for by those after it


def test_reserved_tokens_are_corrected():
    clock = Clock()
    limiter = RateLimiter(RateLimits(tokens_per_minute=60.0), clock)
    assert limiter.reserve(10) == 0
    limiter.correct(10, 4)
    assert limiter.reserve(1) == pytest.approx(4.0)


def test_the_longest_pause_counts():
    clock = Clock()
    limiter = RateLimiter(RateLimits(), clock)
    assert limiter.pause_left() == 0
    limiter.pause(5.0)
    limiter.pause(2.0)
    assert limiter.pause_left() == pytest.approx(5.0)
    clock.now += 5.0
    assert limiter.pause_left() == 0
