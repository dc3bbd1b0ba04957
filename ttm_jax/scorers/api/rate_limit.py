"""The rate limiter: requests and tokens per minute, and pauses that the server asks for."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ttm_jax.scorers.api.ranges import check_range


@dataclass(frozen=True)
class RateLimits:
    """How fast to send requests."""

    concurrency: int = 16
    """How many requests may be in flight at the same time."""
    requests_per_minute: float | None = None
    """Start at most this many requests per minute (your account's limit, or a little less)."""
    tokens_per_minute: float | None = None
    """Send at most this many tokens per minute."""

    def __post_init__(self) -> None:
        check_range("concurrency", self.concurrency, 1, 1000)
        check_range("requests_per_minute", self.requests_per_minute, 1e-3, 1e6)
        check_range("tokens_per_minute", self.tokens_per_minute, 1, 1e12)


class RateLimiter:
    """Spreads requests and tokens evenly over the minute.

    Every request reserves the next free slot. Unused time is not saved up, so no minute exceeds the
    limits. `now` is a clock in seconds.
    """

    def __init__(self, limits: RateLimits, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._per_request = _seconds_per(limits.requests_per_minute)
        self._per_token = _seconds_per(limits.tokens_per_minute)
        self._next_request = self._next_token = self._paused_until = 0.0

    def reserve(self, tokens: int) -> float:
        """Reserve a slot for a request of this many tokens; returns the seconds until it starts."""
        now = self._now()
        start = max(now, self._next_request, self._next_token)
        self._next_request = start + self._per_request
        self._next_token = start + tokens * self._per_token
        return start - now

    def correct(self, reserved: int, used: int) -> None:
        """Account for a request that used another number of tokens than were reserved for it."""
        self._next_token += (used - reserved) * self._per_token

    def pause(self, seconds: float) -> None:
        """Let no request start within this many seconds from now."""
        self._paused_until = max(self._paused_until, self._now() + seconds)

    def pause_left(self) -> float:
        """Seconds until the pause is over."""
        return max(0.0, self._paused_until - self._now())


def _seconds_per(per_minute: float | None) -> float:
    return 0.0 if per_minute is None else 60.0 / per_minute
