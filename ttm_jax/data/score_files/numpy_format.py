"""Scores in numpy's .npy and .npz: sizes are checked before memory is taken.

A header may promise any number of elements and a zip file any number of bytes, so both are compared
with each other, with the file's own size and with a limit first. Pickles are never opened.
"""

import math
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ttm_jax import limits
from ttm_jax.data.score_files.arrays import ScoreFile
from ttm_jax.errors import InputError
from ttm_jax.files import file_problem
from ttm_jax.matching.large.embeddings import Embeddings

_NAMES = ("scores", "truth", "tags", "decoys")
_EMBEDDINGS = ("image_embeddings", "text_embeddings")  # instead of scores, without groups
_WITH_EMBEDDINGS = (*_EMBEDDINGS, "scale", "bias", "truth")
_LONGEST_HEADER = 10_000  # bytes; numpy's own limit
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # np.savez and np.savez_compressed
_FREE = 64 << 20  # bytes that may come out of the smallest file
_RATIO = 100  # scores hardly compress; a bomb does by a thousand


def read_npz(path: Path, matrix: bool) -> ScoreFile:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: not an .npz file (np.savez writes one)")
    with _errors_named(path), zipfile.ZipFile(path) as file:
        found = {info.filename: info for info in file.infolist()}
        if len(found) < len(file.infolist()):
            raise InputError(f"{path}: holds two arrays of one name")
        embedded = matrix and {f"{name}.npy" for name in _EMBEDDINGS} <= found.keys()
        if embedded and "scores.npy" in found:
            raise InputError(f"{path}: holds scores and embeddings; expected one of them")
        if "scores.npy" not in found and not embedded:
            names = ", ".join(name.removesuffix(".npy") for name in found) or "nothing"
            raise InputError(f"{path}: holds {names[:200]}; expected an array named scores")
        known = _WITH_EMBEDDINGS if embedded else _NAMES
        wanted = {name: found[f"{name}.npy"] for name in known if f"{name}.npy" in found}
        _check_members(path, wanted)
        arrays = {}
        for name, info in wanted.items():
            with file.open(info) as stream:
                arrays[name] = _read(path, name, stream, info.file_size)
    if embedded:
        return ScoreFile(_embeddings(path, arrays), arrays.get("truth"))
    tags = () if matrix else _tags_of(path, arrays.get("tags"))
    named = {"images.npy", "captions.npy"} <= found.keys()
    decoys = None if matrix else arrays.get("decoys")
    if decoys is not None:
        _check_decoys(path, decoys, arrays["scores"].shape)
    unpaired = "unpaired.npy" in found
    return ScoreFile(arrays["scores"], arrays.get("truth"), tags, decoys, named, unpaired)


def _embeddings(path: Path, arrays: dict[str, np.ndarray]) -> Embeddings:
    """What scores are made of; scale and bias are single numbers."""
    numbers = {"scale": 1.0, "bias": 0.0}
    for name in numbers:
        if name in arrays:
            if arrays[name].size != 1 or not np.isfinite(arrays[name]).all():
                raise InputError(f"{path}: {name} is {arrays[name]}; expected one finite number")
            numbers[name] = float(arrays[name].reshape(()))
    try:
        images, texts = (arrays[name] for name in _EMBEDDINGS)
        return Embeddings(images, texts, numbers["scale"], numbers["bias"]).checked()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_npy(path: Path, _matrix: bool = False) -> ScoreFile:
    return ScoreFile(read_array(path, "scores"))


def read_array(path: Path, name: str) -> np.ndarray:
    """The numbers in an .npy file; `name` is what errors call them."""
    if problem := file_problem(path):
        raise InputError(f"{path} {problem}")
    with path.open("rb") as file, _errors_named(path):
        if file.read(4) == b"PK\x03\x04":
            raise InputError(f"{path}: a zip of several arrays; such a file is named .npz")
        file.seek(0)
        return _read(path, name, file, path.stat().st_size)


def _check_members(path: Path, members: dict[str, zipfile.ZipInfo]) -> None:
    """Refuse what cannot be read, and everything that would take too much memory together."""
    for name, info in members.items():
        if info.flag_bits & 1:
            raise InputError(f"{path}: {name} is encrypted; save it without a password")
        if info.compress_type not in _COMPRESSIONS:
            raise InputError(
                f"{path}: {name} is compressed in a way that numpy does not write "
                f"(method {info.compress_type}); save it with np.savez"
            )
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise InputError(f"{path}: {name} is a link, not an array")
    total = sum(info.file_size for info in members.values())
    _check_size(path, total)
    if total > max(_FREE, _RATIO * path.stat().st_size):
        raise InputError(
            f"{path}: {path.stat().st_size} bytes that unpack to {total}, which real scores never "
            "do; save them with np.savez"
        )


def _read(path: Path, name: str, stream: Any, size: int) -> np.ndarray:
    """One array from a stream of `size` bytes, if its header promises just as much."""
    shape, dtype, header = _header(path, name, stream)
    if dtype.hasobject:
        raise InputError(f"{path}: {name} holds Python objects; pickles are not opened")
    if dtype.kind not in ("U" if name == "tags" else "fiub") or not dtype.itemsize:
        expected = "strings" if name == "tags" else "numbers"
        raise InputError(f"{path}: {name} is of type {dtype}; expected plain {expected}")
    promised = math.prod(shape) * dtype.itemsize
    _check_size(path, promised)
    if promised != size - header:
        raise InputError(
            f"{path}: the header of {name} promises {promised} bytes, {size - header} follow: the "
            "file was cut, or made by hand"
        )
    stream.seek(0)
    return npy.read_array(stream, allow_pickle=False, max_header_size=_LONGEST_HEADER)


def _header(path: Path, name: str, stream: Any) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, type, and how many bytes come before the data."""
    start = stream.read(12)
    if len(start) < 12 or start[:6] != npy.MAGIC_PREFIX or start[6:8] not in (
        b"\x01\x00", b"\x02\x00", b"\x03\x00"
    ):  # fmt: skip
        raise InputError(f"{path}: {name} is not an array that np.save writes")
    before, length = (10, "<H") if start[6] == 1 else (12, "<I")
    (long,) = struct.unpack(length, start[8:before])
    if long > _LONGEST_HEADER:
        raise InputError(f"{path}: {name} has a header of {long} bytes; expected at most 10000")
    stream.seek(8)
    # Version 3 differs from 2 in the encoding of field names only, which are refused anyway.
    reader = npy.read_array_header_1_0 if start[6] == 1 else npy.read_array_header_2_0
    shape, _, dtype = reader(stream, max_header_size=_LONGEST_HEADER)
    if not all(type(n) is int and n > 0 for n in shape):
        size = " x ".join(str(n) for n in shape)
        raise InputError(f"{path}: {name} has the size {size}: there is nothing in it")
    return shape, dtype, before + long


def _check_size(path: Path, total: int) -> None:
    largest = limits.allowed("SCORE_BYTES")
    if total > largest:
        raise InputError(
            f"{path}: takes {total} bytes of memory, at most {largest} are read; "
            "TTM_JAX_MAX_SCORE_BYTES changes this"
        )


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """The many errors of numpy and zipfile on a damaged file, as one."""
    try:
        yield
    except InputError:
        raise
    except (
        ValueError, OSError, EOFError, KeyError, IndexError, SyntaxError, OverflowError,
        RecursionError, MemoryError, NotImplementedError, RuntimeError, struct.error, zlib.error,
        zipfile.BadZipFile, UnicodeError, TokenError,
    ) as error:  # fmt: skip
        reason = str(error) or type(error).__name__
        raise InputError(f"{path}: cannot be read as a numpy file ({reason[:200]})") from error


def _check_decoys(path: Path, decoys: np.ndarray, shape: tuple[int, ...]) -> None:
    if decoys.ndim != 4 or (decoys.shape[0], *decoys.shape[2:]) != shape:
        raise InputError(
            f"{path}: decoys have the size {' x '.join(str(n) for n in decoys.shape)}; expected "
            f"[group, draw, image, text] beside scores of {' x '.join(str(n) for n in shape)}"
        )
    if not np.isfinite(decoys).all():
        raise InputError(f"{path}: decoys hold a number that is not finite")


def _tags_of(path: Path, tags: np.ndarray | None) -> tuple[tuple[str, ...], ...]:
    """An array of strings: one for each group, or a row of them, where '' means none."""
    if tags is None:
        return ()
    if tags.ndim not in (1, 2):
        raise InputError(f"{path}: tags have {tags.ndim} axes; expected [group] or [group, tag]")
    rows = tags.reshape(len(tags), -1).tolist()
    return tuple(tuple(tag for tag in row if tag) for row in rows)
