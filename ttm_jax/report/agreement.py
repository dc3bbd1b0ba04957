"""Do seeds that agree know more? How many seeds chose each unit's matching, beside the truth."""

from dataclasses import dataclass

import numpy as np

from ttm_jax.matching.rate_interval import Rate
from ttm_jax.report.decisions import decisions
from ttm_jax.report.run_data import Experiment, SeedRun


@dataclass(frozen=True)
class Agreement:
    """The units for whose most frequent matching `seeds` of `of` seeds voted.

    `right` counts those for which that matching is the true one; None if the truth is unknown. Of
    two matchings with as many votes, the one of the lower seed counts.
    """

    seeds: int
    of: int
    units: int
    right: Rate | None

    @property
    def predicted(self) -> float:
        """The percentage that would be right if seeds were right as often as they agree."""
        return 100 * self.seeds / self.of

    @property
    def calibrated(self) -> bool | None:
        """Whether the prediction lies in the interval of the truth; None without a truth."""
        if self.right is None:
            return None
        low, high = self.right.interval()
        return low <= self.predicted <= high


def agreement_of_seeds(experiment: Experiment) -> list[Agreement]:
    """Full agreement first; empty with one seed, or if the seeds have different data."""
    runs = [run for run in experiment.runs if run.finished]
    if len(runs) < 2:
        return []
    chosen = [_matchings(run) for run in runs]
    if len({len(one) for one in chosen}) > 1:
        return []
    # [seed, seed, unit]: do two seeds choose the same?
    same = np.array([[[a == b for a, b in zip(x, y, strict=True)] for y in chosen] for x in chosen])
    votes = same.sum(axis=1)
    winner = votes.argmax(axis=0)
    most = votes.max(axis=0)
    rights = [decisions(run, run.last).right for run in runs]
    right = None if rights[0] is None else np.stack([part for part in rights if part is not None])
    chance = experiment.first.rows[0]["metrics"].get(experiment.first.main_metric, {})
    found = []
    for count in range(len(runs), 0, -1):
        (units,) = np.nonzero(most == count)
        if not len(units):
            continue
        rate = None
        if right is not None:
            hits = int(right[winner[units], units].sum())
            rate = Rate(hits, len(units), chance["chance"] / 100)
        found.append(Agreement(count, len(runs), len(units), rate))
    return found


def _matchings(run: SeedRun) -> list[tuple[int, ...]]:
    """The final matching of every unit."""
    found = decisions(run, run.last).induced
    if run.is_global:
        return [(int(caption),) for caption in found[0].matching.reshape(-1)]
    return [tuple(row) for block in found for row in block.matching.tolist()]
