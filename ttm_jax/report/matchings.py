"""The result of a run in the words of the user: file names and captions instead of indices."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttm_jax.config import Matching
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.files import read_lines
from ttm_jax.preprocess import ImageSource
from ttm_jax.runlog import RunFolder


def matching_lines(
    dataset: GroupedDataset, run: RunFolder, kind: Matching, folder: Path
) -> Iterator[dict[str, Any]]:
    """A line a group, or, without groups, a line an image.

    `matching` is what the adapted model says, `before` what the model said as it came; both are
    indices of captions, null for an image that gets none.
    """
    final = list(read_lines(run.path / "matchings.jsonl"))
    before = [row for row in run.ledger() if row["iteration"] == 1]
    if kind == "global":
        yield from _pair_lines(dataset.ungrouped(), final, before, folder)
        return
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
    dataset: GroupedDataset, final: list[dict], before: list[dict], folder: Path
) -> Iterator[dict[str, Any]]:
    (block,) = dataset.blocks
    for new, old in zip(final, before, strict=True):
        image, caption = new["image"], new["caption"]
        truth = {} if block.truth is None else {"truth": int(block.truth[0, image])}
        yield {
            "image": _name(dataset.images[block.image_index[0, image]], folder),
            "caption": caption,
            "matched": dataset.captions[block.text_index[0, caption]],
            "similarity": new["similarity"],
            "unique": new["unique"],
            "before": old["caption"],
            **truth,
        }


def _known(matching: list[int]) -> list[int | None]:
    return [None if caption < 0 else caption for caption in matching]


def _truth(block: Block, row: int) -> dict[str, Any]:
    return {} if block.truth is None else {"truth": _known(block.truth[row].tolist())}


def _name(image: ImageSource, folder: Path) -> str | None:
    """As the list of the folder has it."""
    return os.path.relpath(image, folder) if isinstance(image, str | Path) else None
