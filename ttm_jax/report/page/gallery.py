"""What the page's gallery shows: every group with its scores, matchings and fate, as plain data.

A card is a group; in a global matching, one image with the captions that ever mattered to it.
Arrays are stored as base64 of their bytes, card after card, so that the page opens them quickly:

    scores    float32 [iteration, image, caption] of every card
    matching  int16   [iteration, image]: the chosen caption of the card, -1 for none
    margin    float32 [iteration]
    right     uint8   [iteration]: 0 wrong, 1 right, 2 unknown
    selected  uint8   [iteration]: whether the next iteration trained on it

Iteration 0 is the model before any training.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ttm_jax.matching.large.pair_scores import PairScores
from ttm_jax.report.decisions import Decisions, decisions, unit_names
from ttm_jax.report.page.names import file_names, unit_titles
from ttm_jax.report.run_data import Experiment, SeedRun
from ttm_jax.runs.pictures import RunPictures

MOST_CELLS = 144  # a larger matrix is no picture any more
_BEST = 3  # captions of the highest score that a global card shows


@dataclass
class Cards:
    """The cards of one run while they are put together."""

    units: list[dict[str, Any]] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    matching: list[np.ndarray] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    """Which unit of the run each card is."""

    def add(self, row: int, unit: dict[str, Any], scores: np.ndarray, matching: np.ndarray) -> None:
        self.units.append(unit)
        self.scores.append(scores.astype(np.float32))  # within its range, as read
        self.matching.append(matching.astype(np.int16))
        self.rows.append(row)


def gallery(experiment: Experiment) -> dict[str, Any]:
    """Everything but the pictures. Cards of groups are the same for all seeds."""
    pictures = experiment.pictures
    runs, left_out = [], 0
    for run in experiment.runs:
        cards = _global_cards(run, pictures) if run.is_global else _group_cards(run, pictures)
        runs.append(_run(run, cards))
        left_out = _units(run) - len(cards.units)
    if not experiment.first.is_global:
        for run_data in runs[1:]:
            run_data["units"] = None  # those of the first seed
    captions = None if pictures is None else list(pictures.captions)
    return {
        "name": experiment.name,
        "global": experiment.first.is_global,
        "captions": captions,
        "files": None if pictures is None else file_names(pictures.names),
        "runs": runs,
        "leftOut": left_out,
    }


def picture_pools(experiments: Sequence[Experiment]) -> tuple[list[list[str]], list[int | None]]:
    """The thumbnails as base64, those that experiments share once; and the pool of each."""
    pools: dict[str, int] = {}
    contents: list[list[str]] = []
    which: list[int | None] = []
    for experiment in experiments:
        pictures = experiment.pictures
        if pictures is None or not pictures.has_thumbnails:
            which.append(None)
            continue
        files = pictures.thumbnails()
        key = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in files)).hexdigest()
        if key not in pools:
            pools[key] = len(contents)
            contents.append([_base64(data) for data in files])
        which.append(pools[key])
    return contents, which


def _run(run: SeedRun, cards: Cards) -> dict[str, Any]:
    every = [decisions(run, iteration) for iteration in range(run.last + 1)]
    margin = np.stack([found.confidence for found in every], axis=1)[cards.rows]
    right = np.stack([_right(found) for found in every], axis=1)[cards.rows]
    chosen = _selected(run, len(every))[cards.rows]
    return {
        "seed": run.seed,
        "iterations": len(every),
        "units": cards.units,
        "scores": _base64(b"".join(part.tobytes() for part in cards.scores)),
        "matching": _base64(b"".join(part.tobytes() for part in cards.matching)),
        "margin": _base64(_float32(margin).tobytes()),
        "right": _base64(right.astype(np.uint8).tobytes()),
        "selected": _base64(chosen.astype(np.uint8).tobytes()),
    }


def _group_cards(run: SeedRun, pictures: RunPictures | None) -> Cards:
    names = unit_names(run)
    every = [(run.scores(t), decisions(run, t).induced) for t in range(run.last + 1)]
    cards, row = Cards(), 0
    for block, (shape, count) in enumerate(run.shapes.items()):
        images, texts = map(int, shape.split("x"))
        scores = np.stack([found[block] for found, _ in every], axis=1)
        matching = np.stack([induced[block].matching for _, induced in every], axis=1)
        truth = None if run.truth is None else run.truth[block]
        for group in range(count):
            if images * texts <= MOST_CELLS:
                seen = None if pictures is None else pictures.groups[row]
                unit = {
                    "id": names[row],
                    "images": None if seen is None else list(seen.images),
                    "captions": None if seen is None else list(seen.captions),
                    "shape": [images, texts],
                    "truth": None if truth is None else truth[group].tolist(),
                    "tags": [] if seen is None else list(seen.tags),
                }
                cards.add(row, unit, scores[group], matching[group])
            row += 1
    return cards


def _global_cards(run: SeedRun, pictures: RunPictures | None) -> Cards:
    """One image per card. Its captions: the true one, those it was matched to, the best scored.

    None where the scores were too many to keep: so many images are no page.
    """
    if isinstance(run.scores(0)[0], PairScores):
        return Cards()
    scores = np.stack([run.scores(t)[0][0] for t in range(run.last + 1)])  # [t, image, caption]
    matching = np.stack([decisions(run, t).induced[0].matching[0] for t in range(run.last + 1)])
    truth = None if run.truth is None else run.truth[0][0]
    best = np.argsort(-scores[-1], axis=1, kind="stable")[:, :_BEST]
    places = _places(pictures, scores.shape[1])
    names = unit_titles(run)
    pool = None if pictures is None else [c for g in pictures.groups for c in g.captions]
    cards = Cards()
    for image in range(scores.shape[1]):
        true = [] if truth is None or truth[image] < 0 else [int(truth[image])]
        chosen = [int(c) for c in matching[:, image] if c >= 0]
        captions = list(dict.fromkeys([*true, *chosen, *best[image].tolist()]))
        local = {caption: place for place, caption in enumerate(captions)}
        picture, tags = places[image]
        unit = {
            "id": names[image],
            "images": None if picture is None else [picture],
            "captions": None if pool is None else [pool[c] for c in captions],
            "shape": [1, len(captions)],
            "truth": None if truth is None else [0 if true else -1],
            "tags": tags,
        }
        found = np.array([[local.get(int(c), -1)] for c in matching[:, image]])
        cards.add(image, unit, scores[:, image : image + 1, captions], found)
    return cards


def _places(pictures: RunPictures | None, images: int) -> list[tuple[int | None, list[str]]]:
    """Picture and tags of every image in the order of the flattened groups."""
    if pictures is None:
        return [(None, [])] * images
    return [(picture, list(group.tags)) for group in pictures.groups for picture in group.images]


def _selected(run: SeedRun, iterations: int) -> np.ndarray:
    """[unit, iteration]; the ledger's lines of iteration t are about the model after t - 1."""
    chosen = np.zeros((iterations, _units(run)), bool)
    for at, rows in enumerate(run.ledger.iterations):
        chosen[at] = [row["selected"] for row in rows]
    return chosen.T


def _units(run: SeedRun) -> int:
    if run.is_global:
        return int(next(iter(run.shapes)).split("x")[0])
    return sum(run.shapes.values())


def _right(found: Decisions) -> np.ndarray:
    return np.full(len(found.confidence), 2) if found.right is None else found.right.astype(int)


def _float32(values: np.ndarray) -> np.ndarray:
    """A sum of scores may be beyond float32: the page shows it as infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
