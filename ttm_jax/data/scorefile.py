"""Score files that any model can have written: .npz, .npy, .csv, .jsonl.

`docs/metrics.md` has the formats with examples. Every fault is an `InputError` that names the file
and the place in it.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.data.jsonl import Line, read_lines
from ttm_jax.data.score_arrays import ScoreFile
from ttm_jax.data.score_csv import read_csv
from ttm_jax.errors import InputError


def read_score_file(path: Path, matrix: bool = False) -> ScoreFile:
    """Read groups of one shape, or with `matrix` the scores of all images against all captions."""
    readers = {".npz": _read_npz, ".npy": _read_npy, ".csv": read_csv, ".jsonl": _read_jsonl}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: the name ends in none of {', '.join(readers)}")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    found = readers[path.suffix.lower()](path, matrix)
    axes = found.scores.ndim
    if axes != (2 if matrix else 3):
        advice = (
            "--global expects one matrix [image, text]; leave it out for groups"
            if matrix
            else "expected [group, image, text]; add --global for one matrix without groups"
        )
        size = " x ".join(str(n) for n in found.scores.shape)
        raise InputError(f"{path}: scores have {axes} axes ({size}): {advice}")
    if found.tags and len(found.tags) != len(found.scores):
        raise InputError(
            f"{path}: tags of {len(found.tags)} groups and scores of {len(found.scores)}"
        )
    return found


def _read_npz(path: Path, matrix: bool) -> ScoreFile:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: not an .npz file (np.savez writes one)")
    try:
        with np.load(path, allow_pickle=False) as file:
            if "scores" not in file:
                names = ", ".join(file.files) or "nothing"
                raise InputError(f"{path}: holds {names}; expected an array named scores")
            arrays = {name: file[name] for name in ("scores", "truth", "tags") if name in file}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _as_input_error(path, error) from error
    tags = () if matrix else _tags_of(path, arrays.get("tags"))
    return ScoreFile(arrays["scores"], arrays.get("truth"), tags)


def _read_npy(path: Path, _matrix: bool) -> ScoreFile:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise _as_input_error(path, error) from error
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"{path}: a zip of several arrays; such a file is named .npz")
    return ScoreFile(loaded)


def _as_input_error(path: Path, error: Exception) -> InputError:
    if isinstance(error, InputError):
        return error
    if "pickle" in str(error).lower():
        return InputError(f"{path}: not a plain numpy array of numbers; pickles are not opened")
    return InputError(f"{path}: cannot be read as a numpy file ({error})")


def _tags_of(path: Path, tags: np.ndarray | None) -> tuple[tuple[str, ...], ...]:
    """An array of strings: one for each group, or a row of them, where '' means none."""
    if tags is None:
        return ()
    if tags.dtype.kind != "U" or tags.ndim not in (1, 2):
        raise InputError(
            f"{path}: tags are {tags.dtype} of {tags.ndim} axes; expected strings, [group] or "
            "[group, tag]"
        )
    rows = tags.reshape(len(tags), -1).tolist()
    return tuple(tuple(tag for tag in row if tag) for row in rows)


def _read_jsonl(path: Path, matrix: bool) -> ScoreFile:
    """One object a line: "scores", and if known "truth" and "tags"; "id" is for the reader."""
    lines = read_lines(path, required=("scores",), optional=("truth", "tags", "id"))
    if matrix and len(lines) > 1:
        raise InputError(f"{path}: {len(lines)} lines; --global expects one matrix on one line")
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
    try:
        block = np.array(line.values["scores"], np.float64)
    except (TypeError, ValueError) as error:
        raise line.error("scores are not rows of numbers of one length") from error
    if block.ndim != 2 or block.size == 0:
        raise line.error(f"scores are {_size(block)}; expected rows, one for each image: [[1, 2]]")
    return block


def _truth(line: Line, images: int) -> list[int]:
    truth: Any = line.values["truth"]
    if isinstance(truth, list) and len(truth) == images and all(type(t) is int for t in truth):
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
