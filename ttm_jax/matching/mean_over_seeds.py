"""Mean and standard deviation of one number over several runs."""

import statistics
from collections.abc import Sequence
from typing import Any


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, sample standard deviation (n - 1; None for one value) and the values themselves."""
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "values": list(values),
    }


def population_std(values: Sequence[float]) -> float | None:
    """The standard deviation that divides by n, as the paper's ± does; None for one value.

    That the paper divides by n follows from its numbers: four whole counts of groups can give the ±
    of 29 of its 30 TTM results with n, but of only 10 with n - 1.
    """
    return statistics.pstdev(values) if len(values) > 1 else None
