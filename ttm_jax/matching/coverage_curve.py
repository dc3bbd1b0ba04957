"""How many groups each threshold selects, and how many of those are correct (paper, Fig. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from ttm_jax.matching.match import GlobalMatching, GroupMatching
from ttm_jax.matching.thresholds import select, select_global, tau_for_coverage

# Coverages shown in the tables; the paper starts with 15 to 30 % of the groups.
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class CoveragePoint:
    """`selected` of `of` at this tau; `right` of the selected, or None if the truth is unknown."""

    tau: float
    selected: int
    of: int
    right: int | None

    @property
    def coverage_percent(self) -> float:
        return 100 * self.selected / self.of

    @property
    def precision_percent(self) -> float | None:
        """Percent of the selected that are correct; None if unknown or if nothing is selected."""
        if self.right is None or self.selected == 0:
            return None
        return 100 * self.right / self.selected


def group_coverage(
    matching: GroupMatching, right: Bool[np.ndarray, " group"] | None, taus: Sequence[float]
) -> list[CoveragePoint]:
    """One point per tau, where tau is a margin."""
    return [_point(tau, select(matching.margin, matching.unique, tau), right) for tau in taus]


def global_coverage(
    matching: GlobalMatching, right: Bool[np.ndarray, " image"] | None, taus: Sequence[float]
) -> list[CoveragePoint]:
    """One point per tau, where tau is the fraction of pairs left out."""
    pairs = int(np.isfinite(matching.similarity).sum())
    return [
        _point(tau, select_global(matching.similarity, matching.unique, tau), right, pairs)
        for tau in taus
    ]


def taus_for_shares(matching: GroupMatching, shares: Sequence[float] = SHARES) -> list[float]:
    """The distinct thresholds that select these fractions of the groups, highest first."""
    taus = {tau_for_coverage(matching.margin, matching.unique, share) for share in shares}
    return sorted(taus, reverse=True)


def _point(
    tau: float,
    selected: Bool[np.ndarray, " group"],
    right: Bool[np.ndarray, " group"] | None,
    of: int | None = None,
) -> CoveragePoint:
    return CoveragePoint(
        tau=float(tau),
        selected=int(selected.sum()),
        of=len(selected) if of is None else of,
        right=None if right is None else int((selected & right).sum()),
    )
