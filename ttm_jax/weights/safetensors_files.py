"""Read and write the safetensors weights of a folder, single or sharded, without PyTorch."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  gives numpy the name "bfloat16", which safetensors asks for
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.weights.checkpoint_files import Tensors

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
# Old transformers files store the constants 0, 1, ... as if they were weights.
_NOT_A_WEIGHT = ".position_ids"


@contextmanager
def opened(folder: Path) -> Iterator[Tensors]:
    """The tensors of a folder, readable while the context is open."""
    with ExitStack() as stack:
        files = {}
        for path in weight_files(folder):
            try:
                file = stack.enter_context(safe_open(path, framework="np"))
            except (SafetensorError, OSError) as error:
                raise InputError(
                    f"{path} is not a complete safetensors file ({error}); download it again"
                ) from error
            files.update(dict.fromkeys(file.keys(), file))
        names = [name for name in files if not name.endswith(_NOT_A_WEIGHT)]
        shapes = {name: tuple(files[name].get_slice(name).get_shape()) for name in names}
        yield Tensors(shapes, lambda name: _read(files[name], name, folder))


def _read(file: Any, name: str, folder: Path) -> np.ndarray:
    try:
        return file.get_tensor(name)
    except (SafetensorError, TypeError, ValueError, AttributeError) as error:
        # Types that numpy does not have, such as float8, are an AttributeError.
        raise InputError(f"{folder}: {name} cannot be read: {error}") from error


def weight_files(folder: Path) -> list[Path]:
    """The files that contain the weights; raises an error that says what to do if none exist."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder / INDEX)
    raise InputError(no_weights(str(folder), sorted(path.name for path in folder.iterdir())))


def no_weights(model: str, names: list[str]) -> str:
    """The error message for a folder or hub repository without safetensors."""
    pickled = [name for name in names if name.startswith("pytorch_model")]
    if not pickled:
        return f"{model} has neither {WEIGHTS} nor {INDEX}, so it cannot be loaded as a model"
    return (
        f"{model} has its weights only in {pickled[0]}, a pickle, which can run code and is never "
        'loaded here; where PyTorch is installed, convert it once with: python -c "from '
        "transformers import AutoModel; AutoModel.from_pretrained('MODEL')"
        ".save_pretrained('FOLDER')\" and load FOLDER"
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
