"""When the next request may start, and how long to wait after one that failed."""

import email.utils
import random
import time
from collections.abc import Callable, Mapping

from ttm_jax.scorers.api.settings import Limits


class Pace:
    """Requests and tokens a minute, evenly spread, and pauses that the server asks for.

    Every request books the next free moment; nothing is saved up, so that no minute has more than
    its share. `now` is a clock in seconds.
    """

    def __init__(self, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._request = 60.0 / limits.requests_per_minute if limits.requests_per_minute else 0.0
        self._token = 60.0 / limits.tokens_per_minute if limits.tokens_per_minute else 0.0
        self._requests_free = self._tokens_free = self._held_until = 0.0

    def book(self, tokens: int) -> float:
        """Seconds until a request of so many tokens may start."""
        now = self._now()
        start = max(now, self._requests_free, self._tokens_free)
        self._requests_free = start + self._request
        self._tokens_free = start + tokens * self._token
        return start - now

    def correct(self, booked: int, used: int) -> None:
        """The request took another number of tokens than was booked for it."""
        self._tokens_free += (used - booked) * self._token

    def hold(self, seconds: float) -> None:
        """Nobody starts before so many seconds from now."""
        self._held_until = max(self._held_until, self._now() + seconds)

    def held(self) -> float:
        """Seconds that such a pause still lasts."""
        return max(0.0, self._held_until - self._now())


def wait_before_retry(
    attempt: int, retry_after: float | None, limits: Limits, rng: random.Random
) -> float:
    """Seconds before attempt number `attempt` (the first retry is 1).

    Exponential back-off with full jitter: anything from 0 to a ceiling that doubles. A wait that
    the server asked for is never cut short; the jitter comes on top.
    """
    if retry_after is not None:
        return retry_after + rng.uniform(0.0, min(limits.backoff, limits.longest_backoff))
    ceiling = min(limits.longest_backoff, limits.backoff * 2.0 ** min(attempt - 1, 32))
    return rng.uniform(0.0, ceiling)


def retry_after_seconds(
    headers: Mapping[str, str], wall_clock: Callable[[], float] = time.time
) -> float | None:
    """What the server asks for: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                when = email.utils.parsedate_to_datetime(value)
            except (TypeError, ValueError):
                continue
            seconds = when.timestamp() - wall_clock()
        if 0 <= seconds < float("inf"):
            return seconds
        if seconds < 0:
            return 0.0
    return None
