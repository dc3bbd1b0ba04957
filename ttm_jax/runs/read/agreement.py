"""What several files of a run say about the same thing has to be the same."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttm_jax.runs.identity import scores_checksum
from ttm_jax.runs.pictures import GROUPS, RunPictures
from ttm_jax.runs.read.fields import Place
from ttm_jax.runs.read.identity import shapes_of
from ttm_jax.runs.read.ledger import Ledger, unit_names
from ttm_jax.runs.read.scores import ScoreBlock


def check_truth(blocks: Sequence[ScoreBlock], measured: bool) -> None:
    """There are metrics if and only if the truth of every block is known."""
    known = [block.truth is not None for block in blocks]
    if measured and not all(known):
        raise Place(blocks[known.index(False)].path).error(
            "holds no truth, although metrics.jsonl has metrics"
        )
    if not measured and all(known):
        raise Place(blocks[0].path).error("holds the truth, although metrics.jsonl has no metrics")


def check_scores(
    blocks: Sequence[ScoreBlock], checksum: str | None, truth: Sequence[np.ndarray] | None
) -> None:
    """Scores are those that metrics.jsonl has a checksum of; the truth is that of iteration 0."""
    for block, known in zip(blocks, truth or (), strict=truth is not None):
        if block.truth is None or not np.array_equal(block.truth, known):
            raise Place(block.path).error("holds another truth than the scores of iteration 0")
    if checksum is not None and scores_checksum(*(block.scores for block in blocks)) != checksum:
        raise Place(blocks[0].path).error(
            "does not hold the scores that metrics.jsonl has the checksum of; one of them has "
            "been changed"
        )


def other_data(pictures: RunPictures, identity: dict[str, Any]) -> str:
    """How groups.json contradicts the dataset of a run; empty if it does not."""
    if identity["config"]["matching"] != "global":
        expected = identity["dataset"]["checksum"]
        same = pictures.checksum == expected
        return "" if same else f"checksum is {pictures.checksum}; config.json says {expected}"
    # The checksum of a global run is that of its data without groups.
    ((_, *whole),) = shapes_of(identity).values()
    found = [sum(group.shape[side] for group in pictures.groups) for side in (0, 1)]
    if found == whole:
        return ""
    return (
        f"groups hold {found[0]} images and {found[1]} captions; config.json says "
        f"{whole[0]} and {whole[1]}"
    )


def check_pictures(
    pictures: RunPictures,
    identity: dict[str, Any],
    ledger: Ledger,
    truth: Sequence[np.ndarray] | None,
) -> None:
    """groups.json lists the groups of the run, in its order."""
    place, dataset = Place(pictures.folder / GROUPS), identity["dataset"]
    problem = other_data(pictures, identity)
    if problem:
        raise place.error(problem)
    if identity["config"]["matching"] == "global":
        return
    if len(pictures.groups) != dataset["groups"]:
        raise place.error(f"{len(pictures.groups)} groups; config.json says {dataset['groups']}")
    expected = [shape[1:] for shape in shapes_of(identity).values() for _ in range(shape[0])]
    for number, (group, shape) in enumerate(zip(pictures.groups, expected, strict=True)):
        if group.shape != shape:
            raise place.error(
                f"groups[{number}] has {group.shape[0]} images and {group.shape[1]} captions; "
                f"config.json says {shape[0]} and {shape[1]}"
            )
    for number, name in enumerate(unit_names(ledger)):
        if pictures.groups[number].id != name:
            raise place.error(f"groups[{number}].id is not that of ledger.jsonl, {name!r}")
    _check_picture_truth(pictures, truth, place)


def _check_picture_truth(
    pictures: RunPictures, truth: Sequence[np.ndarray] | None, place: Place
) -> None:
    known = None if truth is None else [tuple(row) for block in truth for row in block.tolist()]
    for number, group in enumerate(pictures.groups):
        if known is not None and group.truth != known[number]:
            raise place.error(f"groups[{number}].truth is not that of the scores, {known[number]}")
