"""The budget: every request reserves its cost before it is sent, and waits if it does not fit."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.cost import Prices, Usage, format_usd
from ttm_jax.scorers.api.ranges import check_range

_FIRST_MARGIN = 2.0  # how far an estimate may be off before the first reply shows its token count
_MARGIN = 1.1  # and afterwards, relative to the worst case seen so far


def check_budget(budget: float | None, prices: Prices) -> None:
    """Raise `InputError` for a budget that cannot be enforced."""
    if budget is None:
        return
    check_range("budget", budget, 1e-6, 1e9)
    if not prices.known:
        raise InputError("`budget` needs `price_input` and `price_output` to know the costs")


class BudgetGate:
    """Keeps what is spent and what is in flight within the budget, in USD.

    A request is reserved before it is sent, and settled or released afterwards. A reservation is
    the request's estimate times a margin that is corrected by the replies. Without a budget, the
    gate only counts.
    """

    def __init__(
        self,
        prices: Prices,
        budget: float | None = None,
        *,
        used: Usage | None = None,
        lost: Usage | None = None,
    ) -> None:
        check_budget(budget, prices)
        self.prices, self.budget = prices, budget
        self.used = used or Usage()  # by answered requests, those of earlier runs included
        self.lost = lost or Usage()  # by requests without a reply, estimated
        self.answers = 0  # in this run
        self.reserved = 0.0
        self._used_now = Usage()  # by the answers of this run
        self._observed_margin = 0.0  # what the replies so far call for
        self._in_flight = 0
        self._released = asyncio.Event()

    @property
    def spent(self) -> float:
        return self.prices.cost(self.used) + self.prices.cost(self.lost)

    def reservation(self, estimate: Usage) -> float:
        """What to reserve for a request."""
        return self.prices.cost(estimate) * (self._observed_margin or _FIRST_MARGIN)

    def try_reserve(self, estimate: Usage) -> float | None:
        """The amount that was reserved, or None if the budget has no room for it now.

        With a budget, the first request goes alone: its reply shows how far the estimates are off.
        """
        amount = self.reservation(estimate)
        if self.budget is not None:
            unknown_margin = not self._observed_margin and self.reserved > 0
            if unknown_margin or self.spent + self.reserved + amount > self.budget:
                return None
        self.reserved += amount
        self._in_flight += 1
        return amount

    async def reserve(self, estimate: Usage, stopping: Callable[[], bool]) -> float | None:
        """Reserve, waiting for requests in flight to leave room; None if the run is stopping.

        Raises `InputError` if there is no room and nothing in flight: the budget is reached.
        """
        while (amount := self.try_reserve(estimate)) is None:
            if not self._in_flight:
                raise InputError(self._reached(estimate))
            self._released.clear()
            await self._released.wait()
            if stopping():
                return None
        return amount

    def settle(self, amount: float, estimate: Usage, used: Usage) -> None:
        """The request was answered."""
        self.used += used
        self._used_now += used
        self.answers += 1
        self.observe(estimate, used)
        self.release(amount)

    def release(self, amount: float) -> None:
        """The request was not answered, or not sent."""
        self.reserved = max(0.0, self.reserved - amount)
        self._in_flight -= 1
        self._released.set()

    def observe(self, estimate: Usage, used: Usage) -> None:
        """Correct the margin by what a reply took, in this run or an earlier one."""
        expected = self.prices.cost(estimate)
        # At the full price: part of the prompt may not be cached the next time.
        full = self.prices.cost(replace(used, cached=0))
        if expected > 0 and full > 0:
            self._observed_margin = max(self._observed_margin, _MARGIN * full / expected)

    def add_lost(self, estimate: Usage) -> Usage:
        """Count a request without a reply that may have been billed; returns the likely tokens."""
        factor = self._observed_margin / _MARGIN if self._observed_margin else 1.0
        likely = Usage(math.ceil(estimate.input * factor), 0, estimate.output)
        self.lost += likely
        return likely

    def expected_total(self, remaining: int, each: float) -> float:
        """Cost of the whole run; `each` is the estimate for one remaining request."""
        if self.answers:
            each = self.prices.cost(self._used_now) / self.answers
        return self.spent + remaining * each

    def describe(self, expected_total: float) -> str:
        """Cost so far and in total, for a progress display; tokens if the prices are unknown."""
        if not self.prices.known:
            total = self.used + self.lost
            return f"{total.input + total.output:,} tokens"
        return f"{format_usd(self.spent)} of about {format_usd(expected_total)}"

    def _reached(self, estimate: Usage) -> str:
        assert self.budget is not None  # without one there is always room
        return (
            f"the budget of {format_usd(self.budget)} is reached: {format_usd(self.spent)} is "
            "spent, earlier runs included, and the next request needs up to "
            f"{format_usd(self.reservation(estimate))}; all answers are kept: rerun with a larger "
            "`budget` to resume"
        )
