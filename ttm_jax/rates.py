"""A count out of a total: as a percentage, beside chance, with its interval, against another."""

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Rate:
    """`count` of `of`; `chance` is the probability with which a random model gets one right."""

    count: int
    of: int
    chance: float

    @property
    def percent(self) -> float:
        return 100 * self.count / self.of

    @property
    def chance_percent(self) -> float:
        return 100 * self.chance

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's interval, in percent."""
        low, high = wilson_interval(self.count, self.of, confidence)
        return 100 * low, 100 * high

    def as_json(self) -> dict[str, float | int]:
        """The object that `evaluate_scores --json` prints; percent and chance are percentages."""
        return {
            "percent": self.percent,
            "count": self.count,
            "of": self.of,
            "chance": self.chance_percent,
        }


def wilson_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of a proportion (Wilson 1927), from 0 to 1.

    Unlike count +- z standard errors it stays inside [0, 1] and has a width at 0 and at `of`.
    """
    if not (0 <= count <= of and of > 0 and 0 < confidence < 1):
        raise ValueError(f"no interval for {count} of {of} at confidence {confidence}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = count / of
    centre = share + z * z / (2 * of)
    spread = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if count == 0 else (centre - spread) / scale
    high = 1.0 if count == of else (centre + spread) / scale
    return low, high


def relative_gain(before: float | int, after: float | int) -> float:
    """The gain in percent of the old value, as in the paper's tables; infinite from 0."""
    if before == 0:
        return math.inf if after > 0 else 0.0
    return 100 * (after - before) / before


def error_reduction(before: float | int, after: float | int) -> float:
    """The share of the old errors that is gone, in percent; both values are percentages."""
    if before == 100:
        return -math.inf if after < 100 else 0.0
    return 100 * (after - before) / (100 - before)
