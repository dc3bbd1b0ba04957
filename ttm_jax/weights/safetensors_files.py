"""Read and write the safetensors weights of a folder, single or sharded, without PyTorch.

The library checks a file; the values are then read with ordinary reads, one tensor at a time. It
would map the whole file into memory instead, where every page that was touched stays until the file
is closed: a second set of the weights.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.inputs.open_clip_files import is_open_clip
from ttm_jax.weights.checkpoint_files import Tensors

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
OPEN_CLIP_WEIGHTS = "open_clip_model.safetensors"
# Old transformers files store the constants 0, 1, ... as if they were weights.
_NOT_A_WEIGHT = ".position_ids"
_DTYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}


@dataclass(frozen=True)
class _Stored:
    """Where a tensor lies in its file."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@contextmanager
def opened(folder: Path) -> Iterator[Tensors]:
    """The tensors of a folder, readable while the context is open."""
    stored: dict[str, _Stored] = {}
    for path in weight_files(folder):
        stored |= _contents(path)
    shapes = {n: t.shape for n, t in stored.items() if not n.endswith(_NOT_A_WEIGHT)}
    yield Tensors(shapes, lambda name: _read(stored[name], name, folder))


def _contents(path: Path) -> dict[str, _Stored]:
    """The tensors of one file, after the library has checked that it is whole."""
    try:
        with safe_open(path, framework="np"), open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(length))
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path} is not a complete safetensors file ({error}); download it again"
        ) from error
    header.pop("__metadata__", None)
    return {
        name: _Stored(
            path,
            entry["dtype"],
            tuple(entry["shape"]),
            *(8 + length + offset for offset in entry["data_offsets"]),
        )
        for name, entry in header.items()
    }


def _read(stored: _Stored, name: str, folder: Path) -> np.ndarray:
    dtype = _DTYPES.get(stored.dtype)
    if dtype is None:
        raise InputError(
            f"{folder}: {name} cannot be read: its type {stored.dtype} is not one that numpy has"
        )
    count = stored.stop - stored.start
    raw = np.fromfile(stored.path, np.uint8, count, offset=stored.start)
    if raw.size < count:
        raise InputError(f"{stored.path} ended while {name} was read; download it again")
    return raw.view(dtype).reshape(stored.shape)


def weight_files(folder: Path) -> list[Path]:
    """The files that contain the weights; raises an error that says what to do if none exist."""
    name = OPEN_CLIP_WEIGHTS if is_open_clip(folder) else WEIGHTS
    if (folder / name).is_file():
        return [folder / name]
    if name == WEIGHTS and (folder / INDEX).is_file():
        return _shards(folder / INDEX)
    raise InputError(no_weights(str(folder), sorted(path.name for path in folder.iterdir())))


def no_weights(model: str, names: list[str]) -> str:
    """The error message for a folder or hub repository without safetensors."""
    pickled = [name for name in names if name.startswith(("pytorch_model", "open_clip_pytorch"))]
    if "open_clip_config.json" in names and "config.json" not in names:
        return _no_open_clip_weights(model, pickled)
    if not pickled:
        return f"{model} has neither {WEIGHTS} nor {INDEX}, so it cannot be loaded as a model"
    return (
        f"{model} has its weights only in {pickled[0]}, a pickle, which can run code and is never "
        'loaded here; where PyTorch is installed, convert it once with: python -c "from '
        "transformers import AutoModel; AutoModel.from_pretrained('MODEL')"
        ".save_pretrained('FOLDER')\" and load FOLDER"
    )


def _no_open_clip_weights(model: str, pickled: list[str]) -> str:
    if not pickled:
        return f"{model} has no {OPEN_CLIP_WEIGHTS}, so it cannot be loaded as a model of OpenCLIP"
    return (
        f"{model} has its weights only in {pickled[0]}, a pickle, which can run code and is never "
        'loaded here; where PyTorch is installed, convert it once with: python -c "import torch, '
        f"safetensors.torch as s; s.save_file(torch.load('{pickled[0]}', weights_only=True), "
        f"'{OPEN_CLIP_WEIGHTS}')\""
    )


def write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    # transformers rejects files that do not name their framework.
    save_file(tensors, path, metadata={"format": "pt"})


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted({Path(name).name for name in read_json(index)["weight_map"].values()})
    except (KeyError, AttributeError, TypeError) as error:
        raise InputError(f"{index} has no weight_map; download it again") from error
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise InputError(f"{index} names missing files: {', '.join(missing)}")
    return [index.parent / name for name in names]
