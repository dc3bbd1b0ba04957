"""scores/NNN_IxT.npz: the scores of the model after an iteration, checked before they are read.

The files are archives of arrays as `numpy.savez` writes them. Their headers are read here and not
by numpy: what they claim is compared with config.json before memory is taken for it, and only plain
numbers are accepted, never objects (which would be pickled code).
"""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.errors import InputError
from ttm_jax.matching.checks import as_truth
from ttm_jax.runs.read.fields import LARGEST, Place
from ttm_jax.runs.read.identity import shapes_of
from ttm_jax.runs.read.zip_files import SafeZip, open_zip

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    r"\{'descr': '([<>|])([a-zA-Z])(\d{1,2})', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,15}, ?)*(?:\d{1,15})?)\), \} *\n"
)
_LONGEST_HEADER = 1024
_MEMBERS = ("scores.npy", "truth.npy")
_FLOATS, _INTEGERS = ("f4", "f8"), ("i4", "i8", "i2", "i1", "u1", "u2", "u4", "u8")


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    """Scores of all groups of one shape, and their truth if it is known."""

    path: Path
    scores: np.ndarray  # float [group, image, caption]
    truth: np.ndarray | None  # int32 [group, image]


def read_scores(folder: Path, iteration: int, identity: dict[str, Any]) -> Iterator[ScoreBlock]:
    """The blocks of one iteration, in the order of config.json."""
    for name, shape in shapes_of(identity).items():
        yield read_block(folder / "scores" / f"{iteration:03d}_{name}.npz", shape)


def read_block(path: Path, shape: tuple[int, int, int]) -> ScoreBlock:
    """One file, whose scores must have this shape."""
    place = Place(path)
    if not path.exists():
        raise place.error("no such file; the run folder is incomplete")
    with open_zip(path, "SCORE_BYTES", len(_MEMBERS)) as archive:
        unknown = sorted(set(archive.names) - set(_MEMBERS))
        if "scores.npy" not in archive.names or unknown:
            raise place.error(
                f"holds {', '.join(archive.names) or 'nothing'}; expected scores, truth"
            )
        scores = _read_array(archive, "scores.npy", shape, _FLOATS, place)
        truth = None
        if "truth.npy" in archive.names:
            truth = _read_array(archive, "truth.npy", shape[:2], _INTEGERS, place)
    if not (np.abs(scores) <= LARGEST).all():  # false for NaN too
        at = np.argwhere(~(np.abs(scores) <= LARGEST))[0].tolist()
        raise place.error(f"the score at {at} is {scores[tuple(at)]}; expected a finite float32")
    if truth is not None:
        try:
            truth = as_truth(truth, shape)
        except InputError as error:
            raise place.error(str(error)) from None
    return ScoreBlock(path, scores, truth)


def _read_array(
    archive: SafeZip, name: str, shape: tuple[int, ...], types: tuple[str, ...], place: Place
) -> np.ndarray:
    """An array of numbers of one of these types."""
    count = math.prod(shape)
    data = archive.read(name, _LONGEST_HEADER + 8 * count)
    key = name.removesuffix(".npy")
    dtype, order, found, start = _read_header(data, key, types, place)
    if found != shape:
        raise place.error(f"{key} has shape {_size(found)}; config.json says {_size(shape)}")
    if len(data) - start != count * dtype.itemsize:
        raise place.error(f"{key} has {len(data) - start} bytes for {count} numbers of {dtype}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape, order=order)


def _read_header(
    data: bytes, key: str, types: tuple[str, ...], place: Place
) -> tuple[np.dtype, Any, tuple[int, ...], int]:
    """Type, order, shape, and where the numbers begin."""
    start = len(_MAGIC) + 2
    if not data.startswith(_MAGIC) or len(data) < start:
        raise place.error(f"{key} is not a numpy array of version 1.0")
    end = start + struct.unpack("<H", data[start - 2 : start])[0]
    header = _HEADER.fullmatch(data[start:end].decode("latin-1"))
    if header is None or end > len(data):
        raise place.error(f"{key} has a header that is not that of an array of numbers")
    endian, kind, size, fortran, numbers = header.groups()
    if f"{kind}{size}" not in types:
        raise place.error(f"{key} is of type {endian}{kind}{size}; expected {' or '.join(types)}")
    shape = tuple(int(n) for n in numbers.split(",") if n.strip())
    return np.dtype(f"{endian}{kind}{size}"), "F" if fortran == "True" else "C", shape, end


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "()"
