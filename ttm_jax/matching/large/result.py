"""What a certified assignment is asked, and what it answers."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int32

from ttm_jax.matching.large.survey import RowSummary


@dataclass(frozen=True)
class Limits:
    """When to stop without a proof. The bound that is known then is reported."""

    seconds: float = math.inf
    """After so much time, at the end of a round."""
    gap: float = 0.0
    """If the total is at most this share below the optimum (of the sum of magnitudes)."""


@dataclass(frozen=True)
class Round:
    """What one round found; a progress display shows it."""

    number: int
    pairs: int
    """That the assignment was chosen from."""
    violations: int
    """Pairs that are cheaper than their prices. 0 proves that the assignment is optimal."""
    gap: float
    """By how much the total could be higher at most, as a share of the sum of magnitudes."""
    seconds: float
    """Since the start."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin: prices (in units of the score) and matching of a similar problem."""

    image_price: Float64[np.ndarray, " image"]
    text_price: Float64[np.ndarray, " text"]
    matching: Int32[np.ndarray, " image"]


@dataclass(frozen=True, eq=False)
class Certified:
    """The assignment. If the last round has no violations, it is optimal."""

    matching: Int32[np.ndarray, " image"]
    unique: Bool[np.ndarray, " image"]
    """Without a proof: whether the pair can be exchanged at no cost among the pairs of the last
    round."""
    similarity: Float64[np.ndarray, " image"]
    summary: RowSummary
    rounds: tuple[Round, ...]
    start: Start
    """For a later problem that is similar."""

    @property
    def proved(self) -> bool:
        return self.rounds[-1].violations == 0
