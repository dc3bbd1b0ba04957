"""Tiles and prompts of a dataset, each stored once, as arrays for the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Int32

from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageSource
from ttm_jax.inputs.vlm_images import TileProcessor, Tiles
from ttm_jax.inputs.vlm_prompt import PromptTokenizer, ask, lengths, pad

QUESTION_BUCKET = 8  # questions are padded to a multiple of this


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pools:
    """Distinct images and questions. A pytree, so the shapes are given in comments.

    The tiles of all images are concatenated; `tile_index` holds the tile indices of each image. The
    rows of `tile_index`, `prefix` and `question` are padded to the longest.
    """

    tiles: Any  # [tile, S, S, 3], uint8
    tile_index: Any  # [image, T], int32
    prefix: Any  # [image, P], int32: the prompt up to where the questions differ
    prefix_length: Any  # [image], int32
    question: Any  # [text, L], int32: the rest of the prompt
    question_length: Any  # [text], int32


@dataclass(frozen=True)
class Sizes:
    """Lengths used to sort images and questions into batches; on the host."""

    tiles: Int32[np.ndarray, "image"]
    prefix: Int32[np.ndarray, "image"]
    question: Int32[np.ndarray, "text"]


def read_pools(
    processor: TileProcessor,
    prompt: PromptTokenizer,
    question: str,
    images: Sequence[ImageSource] | np.ndarray,
    captions: Sequence[str] | np.ndarray,
    max_positions: int,
) -> tuple[Pools, Sizes]:
    """Decode, tile and tokenize all images and captions once."""
    if isinstance(captions, np.ndarray):
        raise InputError("a VQA model needs captions as strings, but this dataset holds token ids")
    questions = [prompt.question_part(text) for text in ask(question, captions)]
    common = common_start(questions)
    start, questions = questions[0][:common], [row[common:] for row in questions]
    tiled = processor.batch(list(images))
    grids = {(tiles.rows, tiles.columns) for tiles in tiled}
    by_grid = {grid: prompt.image_part(*grid) + start for grid in grids}
    prefixes = [by_grid[tiles.rows, tiles.columns] for tiles in tiled]
    counts = np.asarray([len(tiles.pixels) for tiles in tiled], np.int32)
    sizes = Sizes(counts, lengths(prefixes), lengths(questions))
    _check_length(sizes, max_positions, captions)
    ends = np.cumsum(counts)
    index = (ends - counts)[:, None] + np.arange(counts.max())[None]
    pools = Pools(
        tiles=_join(tiled, processor.size),
        tile_index=np.minimum(index, ends[:, None] - 1).astype(np.int32),
        prefix=pad(prefixes),
        prefix_length=sizes.prefix,
        question=pad(questions, QUESTION_BUCKET),
        question_length=sizes.question,
    )
    return pools, sizes


def common_start(rows: list[list[int]]) -> int:
    """Length of the longest common prefix of all questions, leaving at least one token to each.

    Attention is causal, so these tokens need not be processed again for every question.
    """
    first, last = min(rows), max(rows)  # all other rows are between these two lexicographically
    same = 0
    for a, b in zip(first, last, strict=False):
        if a != b:
            break
        same += 1
    return min(same, min(len(row) for row in rows) - 1)


def _join(tiled: list[Tiles], size: int) -> np.ndarray:
    """Concatenate all tiles; each image's own array is released once it is copied."""
    pool = np.empty((sum(len(tiles.pixels) for tiles in tiled), size, size, 3), np.uint8)
    start = 0
    for position, tiles in enumerate(tiled):
        pool[start : start + len(tiles.pixels)] = tiles.pixels
        start += len(tiles.pixels)
        tiled[position] = Tiles(tiles.pixels[:0], tiles.rows, tiles.columns)
    return pool


def _check_length(sizes: Sizes, max_positions: int, captions: Sequence[str]) -> None:
    longest = int(sizes.question.argmax())
    total = int(sizes.prefix.max()) + int(sizes.question[longest])
    if total > max_positions:
        raise InputError(
            f"the prompt with caption {longest} ({captions[longest][:60]!r}) has {total} tokens; "
            f"this model has {max_positions} positions"
        )
