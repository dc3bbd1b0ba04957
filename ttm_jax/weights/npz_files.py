"""The arrays of an npz file, read one at a time; nothing is ever unpickled."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ttm_jax.errors import InputError
from ttm_jax.files import write_atomic
from ttm_jax.weights.checkpoint_files import Shape, Tensors


@contextmanager
def opened(path: Path) -> Iterator[Tensors]:
    """The arrays of a file; they can be read while the context is open."""
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an npz file, or not a whole one; download it again")
    with np.load(path, allow_pickle=False) as file, zipfile.ZipFile(path) as archive:
        shapes = {name: _shape(archive, name, path) for name in file.files}
        yield Tensors(shapes, lambda name: _restore_bfloat16(file[name]))


def write(path: Path, arrays: dict[str, Any]) -> None:
    write_atomic(path, lambda file: np.savez(file, **arrays))


def _shape(archive: zipfile.ZipFile, name: str, path: Path) -> Shape:
    """The shape of one array, from its header alone."""
    with archive.open(f"{name}.npy") as member:
        if np.lib.format.read_magic(member) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(member)
    if dtype.hasobject:
        raise InputError(f"{path}: {name} holds pickled objects, which are never loaded")
    return shape


def _restore_bfloat16(array: np.ndarray) -> np.ndarray:
    # numpy stores bfloat16 as two bytes without a meaning.
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array
