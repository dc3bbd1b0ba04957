"""What a model decided about every unit of a run, from the scores that the run has stored.

A unit is a group, or one image of a global matching.
"""

from dataclasses import dataclass

import numpy as np

from ttm_jax.engine.pseudo_labels import Induced, induce
from ttm_jax.matching import metrics
from ttm_jax.report.run_data import SeedRun
from ttm_jax.runs.read import ledger
from ttm_jax.runs.read.fields import Place
from ttm_jax.runs.read.metrics import NAME


@dataclass(frozen=True, eq=False)
class Decisions:
    """Of the model after one iteration, over all units in the order of the run.

    `confidence` is the margin of a group or the similarity of a pair. `right` says whether the
    matching is the true one (GroupMatch), `scored` whether GroupScore counts the group; both are
    None where they are not known.
    """

    iteration: int
    induced: tuple[Induced, ...]
    confidence: np.ndarray  # float [unit]
    unique: np.ndarray  # bool [unit]
    right: np.ndarray | None  # bool [unit]
    scored: np.ndarray | None  # bool [unit]


def decisions(run: SeedRun, iteration: int) -> Decisions:
    """Of the model after an iteration; computed once per run and iteration."""
    if iteration not in run.decided:
        run.decided[iteration] = _decide(run, iteration)
    return run.decided[iteration]


def _decide(run: SeedRun, iteration: int) -> Decisions:
    scores, truth = run.scores(iteration), run.truth
    kind = "global" if run.is_global else "group"
    found = induce(scores, kind)  # type: ignore[arg-type]
    right, scored = None, None
    if truth is not None:
        same = [block.matching == true for block, true in zip(found, truth, strict=True)]
        rows = [part[0] if run.is_global else part.all(axis=1) for part in same]
        right = np.concatenate(rows) & np.concatenate([block.unique for block in found])
        _check_count(run, iteration, run.main_metric, right)
    if truth is not None and not run.is_global:
        parts = [metrics.evaluate(s, t).metrics for s, t in zip(scores, truth, strict=True)]
        scored = np.concatenate([part["group_score"].right.astype(bool) for part in parts])
        _check_count(run, iteration, "group_score", scored)
    return Decisions(
        iteration=iteration,
        induced=found,
        confidence=np.concatenate([block.confidence for block in found]),
        unique=np.concatenate([block.unique for block in found]),
        right=right,
        scored=scored,
    )


def _check_count(run: SeedRun, iteration: int, metric: str, right: np.ndarray) -> None:
    """The scores have to give the number that the run has written down."""
    rate = run.rows[iteration]["metrics"].get(metric)
    count = int(np.count_nonzero(right))
    if rate is not None and rate["count"] != count:
        raise Place(run.path / NAME, iteration + 1).error(
            f"metrics.{metric}.count is {rate['count']}, but the files in scores give {count} of "
            f"{len(right)}; one of them has been changed"
        )


def unit_names(run: SeedRun) -> list[str]:
    """How a reader finds a unit again: the id of the group, or "image 17"."""
    if run.is_global:
        return [f"image {number}" for number in range(run.scores(0)[0].shape[1])]
    names = list(ledger.unit_names(run.ledger))
    if names:
        return names
    # Before the first iteration has ended there is no ledger.
    if run.pictures is not None:
        return [group.id for group in run.pictures.groups]
    return [str(number) for number in range(sum(map(len, run.scores(0))))]
