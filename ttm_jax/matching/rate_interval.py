"""A count out of a total, with its chance level, confidence interval and relative change."""

import math
from dataclasses import dataclass

from scipy.stats import binomtest


@dataclass(frozen=True)
class Rate:
    """A count out of a total, with the value that chance would give.

    Examples:
        >>> from ttm_jax.matching.rate_interval import Rate
        >>> rate = Rate(count=31, of=135, chance=1 / 6)
        >>> f"{rate.percent:.2f} %"
        '22.96 %'
    """

    count: int
    """How many are correct."""
    of: int
    """How many there are."""
    chance: float
    """The probability that a random model gets one right."""

    @property
    def percent(self) -> float:
        """The rate in percent."""
        return 100 * self.count / self.of

    @property
    def chance_percent(self) -> float:
        """The value of a random model, in percent."""
        return 100 * self.chance

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's confidence interval.

        Args:
            confidence: The level, between 0 and 1.

        Returns:
            Lower and upper end, in percent.
        """
        low, high = wilson_interval(self.count, self.of, confidence)
        return 100 * low, 100 * high

    def as_json(self) -> dict[str, float | int]:
        """The object that `ttm evaluate --json` prints; `percent` and `chance` are percentages."""
        return {
            "percent": self.percent,
            "count": self.count,
            "of": self.of,
            "chance": self.chance_percent,
        }


def wilson_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson (1927) score interval of a proportion, from 0 to 1.

    Unlike count +- z standard errors it stays within [0, 1] and has a width at 0 and at `of`.
    """
    if not (0 <= count <= of and of > 0 and 0 < confidence < 1):
        raise ValueError(f"no interval for {count} of {of} at confidence {confidence}")
    found = binomtest(count, of).proportion_ci(confidence, method="wilson")
    return float(found.low), float(found.high)


def relative_gain(before: float | int, after: float | int) -> float:
    """Gain as a percentage of the old value, as in the paper's tables; infinite if that is 0."""
    if before == 0:
        return math.inf if after > 0 else 0.0
    return 100 * (after - before) / before


def error_reduction(before: float | int, after: float | int) -> float:
    """Percentage of the old errors that is removed; both arguments are percentages."""
    if before == 100:
        return -math.inf if after < 100 else 0.0
    return 100 * (after - before) / (100 - before)
