"""model.safetensors of a folder, in one file or in shards, without PyTorch."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import ml_dtypes  # noqa: F401  gives numpy the name "bfloat16", which safetensors asks for
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.weights.checkpoint_files import Tensors

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
# Old files of transformers carry the numbers 0, 1, ... as if they were weights.
_NOT_A_WEIGHT = ".position_ids"


@contextmanager
def opened(folder: Path) -> Iterator[Tensors]:
    """The tensors of a folder; they can be read while the context is open."""
    with ExitStack() as stack:
        files = {}
        for path in weight_files(folder):
            try:
                file = stack.enter_context(safe_open(path, framework="np"))
            except (SafetensorError, OSError) as error:
                raise InputError(
                    f"{path} is not a whole safetensors file ({error}); download it again"
                ) from error
            files.update(dict.fromkeys(file.keys(), file))
        names = [name for name in files if not name.endswith(_NOT_A_WEIGHT)]
        shapes = {name: tuple(files[name].get_slice(name).get_shape()) for name in names}
        yield Tensors(shapes, lambda name: files[name].get_tensor(name))


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights; an error says what to do where there are none."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder / INDEX)
    raise InputError(no_weights(str(folder), sorted(path.name for path in folder.iterdir())))


def no_weights(model: str, names: list[str]) -> str:
    """What to say about a folder or a hub repository without safetensors."""
    pickled = [name for name in names if name.startswith("pytorch_model")]
    if not pickled:
        return f"{model} has no {WEIGHTS} and no {INDEX}: it is not a model that can be loaded"
    return (
        f"{model} has its weights in {pickled[0]} only, a pickle, which can run code and is never "
        'loaded here; where PyTorch is installed, convert it once with: python -c "from '
        "transformers import AutoModel; AutoModel.from_pretrained('MODEL')"
        ".save_pretrained('FOLDER')\" and load FOLDER"
    )


def write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    # transformers refuses files that do not say which framework they are for.
    save_file(tensors, path, metadata={"format": "pt"})


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted(set(read_json(index)["weight_map"].values()))
    except (KeyError, AttributeError, TypeError) as error:
        raise InputError(f"{index} has no weight_map; download it again") from error
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise InputError(f"{index} names files that are not there: {', '.join(missing)}")
    return [index.parent / name for name in names]
