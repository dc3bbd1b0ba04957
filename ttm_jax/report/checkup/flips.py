"""The groups that are right in one way of scoring and wrong in the other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ttm_jax.report.checkup.measure import Measure, Scored, margin_of, right


@dataclass(frozen=True)
class Flip:
    """A group (or an image of a global assignment) that changes sides."""

    measure: Measure
    unit: str
    right_here: bool
    """With the usual choices; with the other ones it is the opposite."""
    margin_here: float
    margin_there: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def find_flips(
    here: Scored, there: Scored, measures: Sequence[Measure], ids: Sequence[str]
) -> list[Flip]:
    """Every flip of these measures; the groups of both are in the same order, with these names."""
    flips = []
    for measure in measures:
        before, after = right(here, measure), right(there, measure)
        for unit in np.flatnonzero(before != after).tolist():
            flips.append(
                Flip(
                    measure,
                    _name(here, measure, unit, ids),
                    bool(before[unit]),
                    margin_of(here, measure, unit),
                    margin_of(there, measure, unit),
                )
            )
    return flips


def _name(scored: Scored, measure: Measure, unit: int, ids: Sequence[str]) -> str:
    if measure != "global_match":
        return ids[unit]
    group, image = divmod(unit, scored.truth.shape[1])
    return f"{ids[group]} image {image}"
