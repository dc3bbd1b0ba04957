"""One request until it is answered: rate limit, budget, retries and back-off, orderly shutdown."""

import asyncio
import random
from dataclasses import dataclass, replace

from ttm_jax.runs.signals import RunInterrupted
from ttm_jax.scorers.api.budget import BudgetGate
from ttm_jax.scorers.api.cache import ResponseCache
from ttm_jax.scorers.api.client import ChatClient, PermanentError, TransientError
from ttm_jax.scorers.api.ranges import check_range
from ttm_jax.scorers.api.rate_limit import RateLimiter
from ttm_jax.scorers.api.reply import Reply
from ttm_jax.scorers.api.request import Request

TRY_LATER = 75  # the exit code that sysexits.h calls a temporary failure
_DAY = 86_400  # seconds


@dataclass(frozen=True)
class RetryPolicy:
    """When a request has failed, and how often and after what delay it is sent again."""

    timeout: float = 60.0
    """Seconds to wait for one answer before the request counts as failed."""
    retries: int = 8
    """How often a request is sent again after 429, 5xx, a timeout or a broken connection."""
    backoff: float = 1.0
    """Seconds: the longest delay before the first retry; it doubles with every retry."""
    longest_backoff: float = 60.0
    """Seconds: no delay gets longer than this, unless the server asks for it."""
    longest_retry_after: float = 300.0
    """Seconds: if the server asks to wait longer than this, stop; rerun later to resume."""

    def __post_init__(self) -> None:
        check_range("timeout", self.timeout, 1e-3, _DAY)
        check_range("retries", self.retries, 0, 1000)
        check_range("backoff", self.backoff, 0, _DAY)
        check_range("longest_backoff", self.longest_backoff, 1e-3, _DAY)
        check_range("longest_retry_after", self.longest_retry_after, 1e-3, 30 * _DAY)

    def delay(self, attempt: int, retry_after: float | None, rng: random.Random) -> float:
        """Seconds to wait after failed attempt number `attempt` (the first is 1).

        Exponential back-off with full jitter: uniform between 0 and a ceiling that doubles. A delay
        that the server asks for is never shortened; the jitter is added to it.
        """
        if retry_after is not None:
            return retry_after + rng.uniform(0.0, min(self.backoff, self.longest_backoff))
        ceiling = min(self.longest_backoff, self.backoff * 2.0 ** min(attempt - 1, 32))
        return rng.uniform(0.0, ceiling)


class ShuttingDown(Exception):
    """The run is stopping, and this request was not sent."""


class Shutdown:
    """Set once, with the reason. No request starts afterwards, and every sleep ends."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: Exception | None = None

    def start(self, reason: Exception) -> None:
        """Stop the run. The first reason counts."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def started(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()

    async def sleep(self, seconds: float) -> None:
        """Sleep, or raise `ShuttingDown` as soon as the run is stopping."""
        if seconds > 0 and not self._event.is_set():
            try:
                await asyncio.wait_for(self._event.wait(), seconds)
            except TimeoutError:
                return
        if self._event.is_set():
            raise ShuttingDown


class RetryingSender:
    """Sends a request until it is answered, within the policy, the rate limits and the budget."""

    def __init__(
        self,
        client: ChatClient,
        cache: ResponseCache,
        budget: BudgetGate,
        limiter: RateLimiter,
        policy: RetryPolicy,
        shutdown: Shutdown,
    ) -> None:
        self._client, self._cache, self._budget = client, cache, budget
        self._limiter, self._policy, self._shutdown = limiter, policy, shutdown
        self._rng = random.Random()  # for jitter only; no result depends on it
        self.retried = 0

    async def send(self, request: Request, image_url: str) -> Reply:
        """The reply with its usage (the estimate, if the server does not report it)."""
        for attempt in range(1, self._policy.retries + 2):
            try:
                return await self._attempt(request, image_url)
            except TransientError as error:
                await self._back_off(attempt, error)
        raise AssertionError("the last back-off raises")

    def add_lost(self, request: Request, reason: str) -> None:
        """Record a request without a reply that may have been billed."""
        self._cache.add_lost(request.key, reason, self._budget.add_lost(request.estimate))

    async def _attempt(self, request: Request, image_url: str) -> Reply:
        # Every attempt reserves its cost: one that timed out may have been billed.
        amount = await self._budget.reserve(request.estimate, self._shutdown.started)
        if amount is None:
            raise ShuttingDown
        try:
            await self._wait_for_slot(request)
            reply = await self._ask(request, image_url)
        except BaseException:
            self._budget.release(amount)
            raise
        used = reply.usage or request.estimate
        self._budget.settle(amount, request.estimate, used)
        self._limiter.correct(request.estimate.input, used.input + used.output)
        return replace(reply, usage=used)

    async def _ask(self, request: Request, image_url: str) -> Reply:
        try:
            return await self._client.ask(request.prompt, image_url)
        except (TransientError, PermanentError) as error:
            if error.maybe_billed:
                self.add_lost(request, str(error))
            raise
        except asyncio.CancelledError:
            self.add_lost(request, "stopped while in flight")
            raise

    async def _wait_for_slot(self, request: Request) -> None:
        await self._shutdown.sleep(self._limiter.reserve(request.estimate.input))
        while (left := self._limiter.pause_left()) > 0:
            # With jitter, or all requests would start at the moment when the pause is over.
            await self._shutdown.sleep(left + self._rng.uniform(0.0, self._policy.backoff))

    async def _back_off(self, attempt: int, error: TransientError) -> None:
        asked = error.retry_after
        if asked is not None and asked > self._policy.longest_retry_after:
            raise RunInterrupted(
                f"{error}; the server asks to wait {asked:.0f} s, more than "
                "`longest_retry_after`; all answers are kept",
                TRY_LATER,
            )
        if attempt > self._policy.retries:
            raise RunInterrupted(
                f"gave up after {attempt} attempts: {error}; all answers are kept", TRY_LATER
            )
        self.retried += 1
        if error.overloaded and asked is not None:
            self._limiter.pause(asked)
        await self._shutdown.sleep(self._policy.delay(attempt, asked, self._rng))
