"""How far the margin can be trusted: coverage and precision, histograms, calibration.

Everything here is a function of arrays: the confidence of every unit (margin or similarity),
whether its matching is unique, and, where it is known, whether it is right.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from ttm_jax.matching.rate_interval import wilson_interval

_MOST_POINTS = 120
_FEWEST = 5


@dataclass(frozen=True)
class ThresholdPoint:
    """At this threshold: percent of the units selected, percent of those right (None: unknown)."""

    tau: float
    coverage: float
    precision: float | None


@dataclass(frozen=True)
class MarginBin:
    """Units with a margin from `low` to `high`, and how many of them are right and wrong."""

    low: float
    high: float
    right: int
    wrong: int

    @property
    def count(self) -> int:
        return self.right + self.wrong


@dataclass(frozen=True)
class CalibrationBin:
    """Units of similar margin: mean margin, percent right, and the 95 % interval of that.

    `rank` is the place of the bin's middle among all units, 0 for the smallest margin, 100 for the
    largest.
    """

    rank: float
    margin: float
    right: float
    low: float
    high: float
    count: int


def threshold_points(
    confidence: Float[np.ndarray, " unit"],
    unique: Bool[np.ndarray, " unit"],
    right: Bool[np.ndarray, " unit"] | None,
) -> list[ThresholdPoint]:
    """The paper's Figure 2 (left, middle), thresholds ascending; ties are never selected.

    It ends where fewer than 5 units (or, of less than 50, a tenth) are selected: the precision of
    so few says nothing.
    """
    usable = np.isfinite(confidence) & unique
    fewest = max(1, min(_FEWEST, len(confidence) // 10))
    values = np.sort(confidence[usable])
    values = values[: len(values) - fewest + 1]
    if not len(values):
        return []
    order = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_POINTS)).astype(int))
    points = []
    for tau in dict.fromkeys(values[order].tolist()):
        chosen = unique & (confidence >= tau)
        count = int(chosen.sum())
        precision = None if right is None else 100 * float(right[chosen].sum()) / count
        points.append(ThresholdPoint(tau, 100 * count / len(confidence), precision))
    return points


def margin_bins(
    confidence: Float[np.ndarray, " unit"],
    right: Bool[np.ndarray, " unit"] | None,
    edges: Float[np.ndarray, " edge"],
) -> list[MarginBin]:
    """A histogram; without labels everything counts as `right`. Outliers go into the end bins."""
    inside = np.clip(confidence, edges[0], edges[-1])
    known = np.ones(len(confidence), bool) if right is None else right
    right_counts, _ = np.histogram(inside[known], edges)
    wrong_counts, _ = np.histogram(inside[~known], edges)
    return [
        MarginBin(float(low), float(high), int(good), int(bad))
        for low, high, good, bad in zip(
            edges[:-1], edges[1:], right_counts, wrong_counts, strict=True
        )
    ]


def common_edges(
    *confidences: Float[np.ndarray, " unit"], bins: int = 24
) -> Float[np.ndarray, " edge"]:
    """Edges for several histograms side by side; the farthest 1 % share the last bin."""
    values = np.concatenate(confidences)
    values = values[np.isfinite(values)]
    if not len(values):
        return np.linspace(0.0, 1.0, bins + 1)
    low, high = float(values.min()), float(np.quantile(values, 0.99))
    low = min(low, 0.0) if low > -1e-9 else low
    return np.linspace(low, high if high > low else low + 1.0, bins + 1)


def calibration(
    confidence: Float[np.ndarray, " unit"], right: Bool[np.ndarray, " unit"], bins: int = 10
) -> list[CalibrationBin]:
    """Bins of equal size by margin: is a larger margin more often right, and how often?"""
    finite = np.flatnonzero(np.isfinite(confidence))
    order = finite[np.argsort(confidence[finite], kind="stable")]
    found: list[CalibrationBin] = []
    before = 0
    for part in np.array_split(order, min(bins, max(1, len(order) // 5))):
        if not len(part):
            continue
        count = int(right[part].sum())
        low, high = wilson_interval(count, len(part))
        found.append(
            CalibrationBin(
                rank=100 * (before + len(part) / 2) / len(order),
                margin=float(confidence[part].mean()),
                right=100 * count / len(part),
                low=100 * low,
                high=100 * high,
                count=len(part),
            )
        )
        before += len(part)
    return found
