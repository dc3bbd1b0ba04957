"""Money for a request: set aside before it is sent, waited for while others may leave some over."""

import asyncio

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.halt import Halt, Halted
from ttm_jax.scorers.api.money import Ledger, usd
from ttm_jax.scorers.api.settings import Usage


class Purse:
    """The ledger, for requests that run side by side."""

    def __init__(self, ledger: Ledger, halt: Halt) -> None:
        self.ledger, self._halt = ledger, halt
        self._under_way = 0
        self._came_free = asyncio.Event()

    async def reserve(self, estimate: Usage) -> float:
        """Set the money aside; with no room for it and nothing under way, the budget is reached."""
        while (reserved := self.ledger.try_reserve(estimate)) is None:
            if not self._under_way:
                raise InputError(self._reached(estimate))
            self._came_free.clear()
            await self._came_free.wait()
            if self._halt.is_set():
                raise Halted
        self._under_way += 1
        return reserved

    def settle(self, reserved: float, estimate: Usage, used: Usage) -> None:
        """The request was answered."""
        self.ledger.settle(estimate, used)
        self.give_back(reserved)

    def give_back(self, reserved: float) -> None:
        """The request was not answered, or not sent."""
        self.ledger.free(reserved)
        self._under_way -= 1
        self._came_free.set()

    def _reached(self, estimate: Usage) -> str:
        ledger = self.ledger
        assert ledger.budget is not None  # without one there is always room
        return (
            f"the budget of {usd(ledger.budget)} is reached: {usd(ledger.spent)} are spent, "
            "earlier commands included, and the next request needs up to "
            f"{usd(ledger.price_of(estimate))}; the answers are kept, so the same command with a "
            "larger --budget goes on from here"
        )
