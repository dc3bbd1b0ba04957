"""Score files that any model can have written: .npz, .npy, .csv, .jsonl.

`docs/metrics.md` has the formats with examples. Every fault is an `InputError` that names the file
and the place in it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.data.jsonl import Line, read_lines
from ttm_jax.data.score_files.arrays import ScoreFile
from ttm_jax.data.score_files.csv_format import read_csv
from ttm_jax.data.score_files.numpy_format import read_npy, read_npz
from ttm_jax.errors import InputError
from ttm_jax.files import file_problem
from ttm_jax.matching.large.embeddings import Embeddings

_MOST_CAPTIONS = 1 << 31


def read_score_file(path: Path, matrix: bool = False) -> ScoreFile:
    """Read groups of one shape, or with `matrix` the scores of all images against all captions.

    A file that `ttm score` has written is such a matrix, and is recognised.
    """
    readers: dict[str, Callable[[Path, bool], ScoreFile]] = {
        ".npz": read_npz,
        ".npy": read_npy,
        ".csv": read_csv,
        ".jsonl": _read_jsonl,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: the name ends in none of {', '.join(readers)}")
    if problem := file_problem(path):
        raise InputError(f"{path} {problem}")
    found = readers[path.suffix.lower()](path, matrix)
    if isinstance(found.scores, Embeddings):
        return found
    axes = found.scores.ndim
    if axes == 2 and found.named:
        return found  # of `ttm score`: always one matrix
    if axes != (2 if matrix else 3):
        advice = (
            "expected one matrix [image, text] without groups"
            if matrix
            else "expected [group, image, text]; one matrix without groups is a global matching"
        )
        size = " x ".join(str(n) for n in found.scores.shape)
        raise InputError(f"{path}: scores have {axes} axes ({size}): {advice}")
    if found.tags and len(found.tags) != len(found.scores):
        raise InputError(
            f"{path}: tags of {len(found.tags)} groups and scores of {len(found.scores)}"
        )
    return found


def _read_jsonl(path: Path, matrix: bool) -> ScoreFile:
    """One object per line: "scores", and if known "truth" and "tags"; "id" is for the reader."""
    lines = read_lines(path, required=("scores",), optional=("truth", "tags", "id"))
    if matrix and len(lines) > 1:
        raise InputError(f"{path}: {len(lines)} lines; expected one matrix on one line")
    blocks = [_block(line) for line in lines]
    for line, block in zip(lines, blocks, strict=True):
        if block.shape != blocks[0].shape:
            raise line.error(
                f"scores of {_size(block)}, but line {lines[0].number} has {_size(blocks[0])}; one "
                "file holds groups of one shape: split it by shape"
            )
    known = ["truth" in line.values for line in lines]
    if any(known) != all(known):
        raise lines[known.index(False)].error("no truth, but other lines have one; all or none")
    truth = np.array([_truth(line, len(blocks[0])) for line in lines]) if all(known) else None
    if matrix:
        return ScoreFile(blocks[0], None if truth is None else truth[0])
    tags = tuple(_tags(line) for line in lines)
    return ScoreFile(np.stack(blocks), truth, tags if any(tags) else ())


def _block(line: Line) -> np.ndarray:
    rows = line.values["scores"]
    if not (isinstance(rows, list) and rows and all(isinstance(row, list) and row for row in rows)):
        raise line.error("scores are not rows of numbers; expected one row per image: [[1, 2]]")
    if len({len(row) for row in rows}) > 1:
        raise line.error("scores are not rows of numbers of one length")
    if any(type(value) not in (int, float) for row in rows for value in row):
        raise line.error("scores hold something that is not a number")
    try:
        return np.array(rows, np.float64)
    except OverflowError:
        raise line.error("scores hold a number that is too large") from None


def _truth(line: Line, images: int) -> list[int]:
    truth: Any = line.values["truth"]
    is_list = isinstance(truth, list) and len(truth) == images
    if is_list and all(type(t) is int and -1 <= t < _MOST_CAPTIONS for t in truth):
        return truth
    raise line.error(
        f"truth is {json.dumps(truth)[:60]}; expected the caption index of each of {images} images"
    )


def _tags(line: Line) -> tuple[str, ...]:
    tags = line.values.get("tags", [])
    tags = [tags] if isinstance(tags, str) else tags
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise line.error("tags are not strings")
    return tuple(tags)


def _size(block: np.ndarray) -> str:
    return " x ".join(str(n) for n in block.shape) or "a single number"
