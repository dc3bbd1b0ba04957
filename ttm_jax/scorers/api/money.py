"""What was spent, what is under way, and whether the next request still fits the budget."""

import math
from dataclasses import dataclass, field, replace

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.settings import Prices, Usage

_FIRST_MARGIN = 2.0  # how far an estimate may be off before the first answer has shown its tokens
_MARGIN = 1.1  # and afterwards, beyond the worst that was seen


def usd(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


@dataclass
class Ledger:
    """Spent and reserved USD. A request is reserved before it is sent and settled afterwards.

    Reservations are estimates times a margin that the answers correct, so that the sum of what was
    spent and what is under way does not pass the budget.
    """

    prices: Prices
    budget: float | None = None
    used: Usage = field(default_factory=Usage)  # by answers, from earlier commands too
    lost: Usage = field(default_factory=Usage)  # by requests without an answer, estimated
    reserved: float = 0.0
    answered_now: Usage = field(default_factory=Usage)  # by the answers of this command
    answers_now: int = 0
    _seen: float = 0.0  # the margin that the answers so far ask for

    def __post_init__(self) -> None:
        if self.budget is None:
            return
        if not self.budget > 0:
            raise InputError(f"--budget is {self.budget}; expected USD, more than 0")
        if not self.prices.known:
            raise InputError("--budget needs --price-input and --price-output to know the costs")

    @property
    def spent(self) -> float:
        return self.prices.cost(self.used) + self.prices.cost(self.lost)

    def price_of(self, estimate: Usage) -> float:
        """What to set aside for a request."""
        return self.prices.cost(estimate) * (self._seen or _FIRST_MARGIN)

    def try_reserve(self, estimate: Usage) -> float | None:
        """The amount that was set aside, or None if the budget has no room for it now.

        With a budget, the first request goes alone: its answer tells how far the estimates are off.
        """
        amount = self.price_of(estimate)
        if self.budget is not None:
            unknown = not self._seen and self.reserved > 0
            if unknown or self.spent + self.reserved + amount > self.budget:
                return None
        self.reserved += amount
        return amount

    def settle(self, estimate: Usage, used: Usage) -> None:
        """An answer came."""
        self.used += used
        self.answered_now += used
        self.answers_now += 1
        self.learn(estimate, used)

    def learn(self, estimate: Usage, used: Usage) -> None:
        """Correct the margin by what an answer took, now or in an earlier command."""
        expected = self.prices.cost(estimate)
        # At the full price: that the server had a part of it cached may not happen again.
        full = self.prices.cost(replace(used, cached=0))
        if expected > 0 and full > 0:
            self._seen = max(self._seen, _MARGIN * full / expected)

    def lose(self, estimate: Usage) -> Usage:
        """A request brought nothing, but the provider may have billed it: so many tokens."""
        factor = self._seen / _MARGIN if self._seen else 1.0
        likely = Usage(math.ceil(estimate.input * factor), 0, estimate.output)
        self.lost += likely
        return likely

    def free(self, reserved: float) -> None:
        self.reserved = max(0.0, self.reserved - reserved)

    def expected(self, remaining: int, each: float) -> float:
        """What all will have cost in the end; `each` is the estimate of one remaining request."""
        if self.answers_now:
            each = self.prices.cost(self.answered_now) / self.answers_now
        return self.spent + remaining * each
