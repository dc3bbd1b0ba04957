"""Read the arrays of an npz file one at a time, without ever unpickling anything."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any

import ml_dtypes
import numpy as np

from ttm_jax.errors import InputError
from ttm_jax.files import write_atomic
from ttm_jax.weights.checkpoint_files import Shape, Tensors

# What numpy and zipfile raise for members that are cut, encrypted, or not arrays.
_BROKEN = (ValueError, KeyError, EOFError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error,
           SyntaxError, OverflowError, TypeError, struct.error, TokenError)  # fmt: skip
# An array may unpack to this many times its size in the file, or to so many bytes in any case.
_RATIO, _FREE = 50, 2**26


@contextmanager
def opened(path: Path) -> Iterator[Tensors]:
    """The arrays of a file, readable while the context is open."""
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an npz file or is incomplete; download it again")
    try:
        with np.load(path, allow_pickle=False) as file, zipfile.ZipFile(path) as archive:
            shapes = {name: _shape(archive, name, path) for name in file.files}
            yield Tensors(shapes, lambda name: _restore_bfloat16(file[name]))
    except InputError:
        raise
    except _BROKEN as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{path} cannot be read ({reason}); download it again") from error


def write(path: Path, arrays: dict[str, Any]) -> None:
    write_atomic(path, lambda file: np.savez(file, **arrays))


def _shape(archive: zipfile.ZipFile, name: str, path: Path) -> Shape:
    """The shape of one array, read from its header only."""
    with archive.open(f"{name}.npy") as member:
        if np.lib.format.read_magic(member) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(member)
        header = member.tell()
    if dtype.hasobject:
        raise InputError(f"{path}: {name} holds pickled objects, which are never loaded")
    info = archive.getinfo(f"{name}.npy")
    promised = prod(shape) * dtype.itemsize
    if promised != info.file_size - header:
        raise InputError(
            f"{path}: the header of {name} promises {promised} bytes, {info.file_size - header} "
            "follow: the file was cut, or made by hand"
        )
    if promised > max(_FREE, _RATIO * info.compress_size):
        raise InputError(
            f"{path}: {name} takes {info.compress_size} bytes and unpacks to {promised}, which "
            "weights never do"
        )
    return shape


def _restore_bfloat16(array: np.ndarray) -> np.ndarray:
    # numpy stores bfloat16 as an untyped two-byte dtype.
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array
