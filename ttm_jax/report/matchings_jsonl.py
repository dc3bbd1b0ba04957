"""The result of a run in the words of the user: file names and captions instead of indices."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ttm_jax.config import Matching
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.engine.resumable_run import matching_rows
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageSource, NamedBytes
from ttm_jax.plain_text import one_line
from ttm_jax.runs.folder import RunFolder
from ttm_jax.runs.identity import plain
from ttm_jax.runs.read.identity import read_identity
from ttm_jax.runs.read.ledger import read_ledger, read_matchings
from ttm_jax.runs.read.metrics import read_metrics
from ttm_jax.training.task import Scores


def matching_lines(
    dataset: GroupedDataset, run: RunFolder, kind: Matching, folder: Path
) -> Iterator[dict[str, Any]]:
    """One line per group or, without groups, one line per image.

    `matching` is what the adapted model says, `before` what the model said before training; both
    are indices of captions, null for an image that gets none.
    """
    identity = read_identity(run.path)
    measured = read_metrics(run.path, identity)
    final = read_matchings(run.path, identity)
    found = read_ledger(run.path, identity, measured.rows, finished=measured.finished)
    if not found.iterations:
        raise InputError(one_line(f"{run.path} has no finished iteration"))
    before = found.iterations[0]
    if kind == "global":
        yield from _pair_lines(dataset.ungrouped(), final, before, folder)
        return
    yield from _group_lines(dataset, final, before, folder)


def _group_lines(
    dataset: GroupedDataset, final: Sequence[dict], before: Sequence[dict], folder: Path
) -> Iterator[dict[str, Any]]:
    places = [(block, row) for block in dataset.blocks for row in range(len(block))]
    for (block, row), new, old in zip(places, final, before, strict=True):
        captions = [dataset.captions[i] for i in block.text_index[row]]
        yield {
            "id": new["group"],
            "images": [_name(dataset.images[i], folder) for i in block.image_index[row]],
            "captions": captions,
            "matching": _known(new["matching"]),
            "matched": [None if i < 0 else captions[i] for i in new["matching"]],
            "margin": new["margin"],
            "unique": new["unique"],
            "before": _known(old["matching"]),
            **_truth(block, row),
        }


def _pair_lines(
    dataset: GroupedDataset, final: Sequence[dict], before: Sequence[dict], folder: Path
) -> Iterator[dict[str, Any]]:
    (block,) = dataset.blocks
    for new, old in zip(final, before, strict=True):
        image = new["image"]
        (caption,), (earlier,) = _known([new["caption"]]), _known([old["caption"]])
        truth = {}
        if block.truth is not None:
            truth["truth"] = _known([int(block.truth[0, image])])[0]
        yield {
            "image": _name(dataset.images[block.image_index[0, image]], folder),
            "caption": caption,
            "matched": None if caption is None else dataset.captions[block.text_index[0, caption]],
            "similarity": new["similarity"],
            "unique": new["unique"],
            **_runner_up(dataset, block, new),
            "before": earlier,
            **truth,
        }


def _runner_up(dataset: GroupedDataset, block: Block, row: dict) -> dict[str, Any]:
    """The best other caption; runs of earlier versions have not written it."""
    other = row.get("runner_up", -1)
    text = None if other < 0 else dataset.captions[block.text_index[0, other]]
    return {"runner_up": text}


def untrained_lines(
    dataset: GroupedDataset, scores: Scores, kind: Matching, folder: Path
) -> Iterator[dict[str, Any]]:
    """The same from the scores of a model that was not trained: without `before`."""
    dataset = dataset.ungrouped() if kind == "global" else dataset
    rows = list(matching_rows(dataset, scores, kind))
    before = [dict(row) for row in rows]
    if kind == "global":
        lines = _pair_lines(dataset, rows, before, folder)
    else:
        lines = _group_lines(dataset, rows, before, folder)
    for line in lines:
        del line["before"]
        yield plain(line)


def _known(matching: list[int]) -> list[int | None]:
    return [None if caption < 0 else caption for caption in matching]


def _truth(block: Block, row: int) -> dict[str, Any]:
    return {} if block.truth is None else {"truth": _known(block.truth[row].tolist())}


def _name(image: ImageSource, folder: Path) -> str | None:
    """As the folder's own list names it."""
    if isinstance(image, NamedBytes):
        return image.name
    return os.path.relpath(image, folder) if isinstance(image, str | Path) else None
