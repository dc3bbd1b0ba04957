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
from ttm_jax.limits import allowed, variable
from ttm_jax.matching.checks import UNMATCHED, as_truth
from ttm_jax.matching.large.pair_scores import STORED, PairScores
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
    scores: Any  # float [group, image, caption], or PairScores of one group
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
    most = len(_MEMBERS) + (len(STORED) if shape[0] == 1 else 0)
    with open_zip(path, "SCORE_BYTES", most) as archive:
        names = set(archive.names)
        scores: Any
        if names - {"truth.npy"} == {f"{name}.npy" for name in STORED} and shape[0] == 1:
            scores = _read_pairs(archive, shape, place)
        elif "scores.npy" in names and not names - set(_MEMBERS):
            if 4 * math.prod(shape) > allowed("SCORE_BYTES"):
                raise place.error(
                    f"scores of {_size(shape)} take more than {allowed('SCORE_BYTES')} bytes "
                    f"({variable('SCORE_BYTES')} raises this)"
                )
            scores = _read_array(archive, "scores.npy", shape, _FLOATS, place)
            _check_finite(scores, "score", place)
        else:
            raise place.error(
                f"holds {', '.join(archive.names) or 'nothing'}; expected scores, truth"
            )
        truth = None
        if "truth.npy" in archive.names:
            truth = _read_array(archive, "truth.npy", shape[:2], _INTEGERS, place)
    if truth is not None:
        try:
            truth = as_truth(truth, shape)
        except InputError as error:
            raise place.error(str(error)) from None
    return ScoreBlock(path, scores, truth)


def _check_finite(values: np.ndarray, name: str, place: Place) -> None:
    if not (np.abs(values) <= LARGEST).all():  # false for NaN too
        at = np.argwhere(~(np.abs(values) <= LARGEST))[0].tolist()
        raise place.error(f"the {name} at {at} is {values[tuple(at)]}; expected a finite float32")


def _read_pairs(archive: SafeZip, shape: tuple[int, int, int], place: Place) -> PairScores:
    """One assignment of too many pairs for a matrix, and the best two captions of each image."""
    _, images, texts = shape
    arrays = {}
    for name, (kind, side) in STORED.items():
        found = _read_array(archive, f"{name}.npy", (shape[1 + side],), (kind,), place)
        if kind.startswith("f"):
            _check_finite(found, name, place)
        arrays[name] = found
    for name, least in (("matching", UNMATCHED), ("first", 0), ("second", -1)):
        if not (least <= arrays[name].min() and arrays[name].max() < texts):
            raise place.error(f"{name} names captions that do not exist; there are {texts}")
    if arrays["unique"].max() > 1:
        raise place.error("unique holds something other than 0 and 1")
    pairs = arrays["matching"][arrays["matching"] != UNMATCHED]
    if len(pairs) != min(images, texts) or len(np.unique(pairs)) != len(pairs):
        raise place.error("matching does not give each image a caption of its own")
    return PairScores.from_arrays(arrays)


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
