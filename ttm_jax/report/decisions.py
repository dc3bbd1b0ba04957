"""What a model decided about every unit of a run, from the scores that the run has kept.

A unit is a group, or one image of a global matching.
"""

from dataclasses import dataclass

import numpy as np

from ttm_jax import metrics
from ttm_jax.pseudo_labels import Induced, induce
from ttm_jax.report.run_data import SeedRun


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
    scores, truth = run.scores(iteration), run.truth
    kind = "global" if run.is_global else "group"
    found = induce(scores, kind)  # type: ignore[arg-type]
    right, scored = None, None
    if truth is not None:
        same = [block.matching == true for block, true in zip(found, truth, strict=True)]
        rows = [part[0] if run.is_global else part.all(axis=1) for part in same]
        right = np.concatenate(rows) & np.concatenate([block.unique for block in found])
    if truth is not None and not run.is_global:
        parts = [metrics.evaluate(s, t).metrics for s, t in zip(scores, truth, strict=True)]
        scored = np.concatenate([part["group_score"].right.astype(bool) for part in parts])
    return Decisions(
        iteration=iteration,
        induced=found,
        confidence=np.concatenate([block.confidence for block in found]),
        unique=np.concatenate([block.unique for block in found]),
        right=right,
        scored=scored,
    )


def unit_names(run: SeedRun) -> list[str]:
    """How a reader finds a unit again: the id of the group, or "image 17"."""
    if run.is_global:
        return [f"image {number}" for number in range(run.scores(0)[0].shape[1])]
    from ttm_jax.files import read_lines

    names: list[str] = []
    for row in read_lines(run.path / "ledger.jsonl"):
        if row["iteration"] != 1:
            break
        names.append(row["group"])
    total = sum(run.shapes.values())
    return names if len(names) == total else [str(number) for number in range(total)]
