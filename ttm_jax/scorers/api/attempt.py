"""One question until it is answered: pace, attempts, back-off, and the money of each."""

import asyncio
import random
from dataclasses import replace

from ttm_jax.scorers.api.cache import ResponseCache
from ttm_jax.scorers.api.client import ChatClient, Permanent, Transient
from ttm_jax.scorers.api.halt import Halt
from ttm_jax.scorers.api.money import Ledger
from ttm_jax.scorers.api.pace import Pace, wait_before_retry
from ttm_jax.scorers.api.plan import Job
from ttm_jax.scorers.api.purse import Purse
from ttm_jax.scorers.api.reply import Reply
from ttm_jax.scorers.api.settings import Limits
from ttm_jax.signals import RunInterrupted

TRY_LATER = 75  # the exit code that sysexits.h calls a temporary failure


class Asker:
    """Sends a job again until it is answered, within the limits."""

    def __init__(
        self,
        client: ChatClient,
        cache: ResponseCache,
        ledger: Ledger,
        limits: Limits,
        halt: Halt,
        rng: random.Random | None = None,
    ) -> None:
        self._client, self._cache, self._limits, self._halt = client, cache, limits, halt
        self._purse, self._pace = Purse(ledger, halt), Pace(limits)
        self._rng = rng or random.Random()  # jitter only: it decides no result
        self.retried = 0

    async def ask(self, job: Job, image_url: str) -> Reply:
        """The reply, with its usage (the estimate, where the server does not say)."""
        for attempt in range(1, self._limits.retries + 2):
            try:
                return await self._once(job, image_url)
            except Transient as failure:
                await self._back_off(attempt, failure)
        raise AssertionError("the last back-off raises")

    async def _once(self, job: Job, image_url: str) -> Reply:
        # Money for every attempt anew: one that timed out may have been billed.
        reserved = await self._purse.reserve(job.estimate)
        try:
            await self._wait_for_turn(job)
            reply = await self._send(job, image_url)
        except BaseException:
            self._purse.give_back(reserved)
            raise
        used = reply.usage or job.estimate
        self._purse.settle(reserved, job.estimate, used)
        self._pace.correct(job.estimate.input, used.input + used.output)
        return replace(reply, usage=used)

    async def _send(self, job: Job, image_url: str) -> Reply:
        try:
            return await self._client.ask(job.prompt, image_url)
        except (Transient, Permanent) as failure:
            if failure.maybe_billed:
                self.lose(job, str(failure))
            raise
        except asyncio.CancelledError:
            self.lose(job, "stopped while it was under way")
            raise

    async def _wait_for_turn(self, job: Job) -> None:
        await self._halt.sleep(self._pace.book(job.estimate.input))
        while (held := self._pace.held()) > 0:
            # Not all at the same moment when the pause is over.
            await self._halt.sleep(held + self._rng.uniform(0.0, self._limits.backoff))

    async def _back_off(self, attempt: int, failure: Transient) -> None:
        asked = failure.retry_after
        if asked is not None and asked > self._limits.longest_retry_after:
            raise RunInterrupted(
                f"{failure}; the server asks to wait {asked:.0f} s, more than "
                f"--longest-retry-after; what was answered is kept",
                TRY_LATER,
            )
        if attempt > self._limits.retries:
            raise RunInterrupted(
                f"gave up after {attempt} attempts: {failure}; what was answered is kept", TRY_LATER
            )
        self.retried += 1
        if failure.crowded and asked is not None:
            self._pace.hold(asked)
        await self._halt.sleep(wait_before_retry(attempt, asked, self._limits, self._rng))

    def lose(self, job: Job, reason: str) -> None:
        """Count a request that brought no answer but may have been billed."""
        self._cache.add_lost(job.key, reason, self._purse.ledger.lose(job.estimate))
