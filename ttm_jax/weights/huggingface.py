"""Load and save Hugging Face folders (config.json and safetensors) of SigLIP and CLIP."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.files import named, read_json, temporary_folder, write_json
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import hf_config, safetensors_files
from ttm_jax.weights.checkpoint_files import (
    DEFAULT_COMPUTE,
    Checkpoint,
    Config,
    Params,
    Tensors,
    check_sizes,
    expected_shapes,
    make_checkpoint,
)
from ttm_jax.weights.parameter_names import rules
from ttm_jax.weights.positions import at_image_size
from ttm_jax.weights.tensor_layout import to_ours, to_theirs

_POSITIONS = "vision_model.embeddings.position_embedding.weight"
_PREPROCESSOR, _PROCESSOR = "preprocessor_config.json", "processor_config.json"
# Files of a model besides its weights: tokenizer and image processor.
_EXTRA_FILES = (
    _PREPROCESSOR,
    _PROCESSOR,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "advice.json",
)


def load(
    folder: Path, *, compute: Compute = DEFAULT_COMPUTE, image_size: int | None = None
) -> Checkpoint:
    """Load a SigLIP or CLIP model in the format that transformers saves.

    The image size comes from config.json. Another `image_size` resamples the position embedding, as
    described in ttm_jax/weights/positions.py.
    """
    folder = Path(folder)
    fields = read_fields(folder / "config.json")
    with safetensors_files.opened(folder) as tensors:
        return convert(fields, tensors, str(folder), compute=compute, image_size=image_size)


def convert(
    fields: Mapping[str, Any],
    tensors: Tensors,
    source: str,
    *,
    compute: Compute = DEFAULT_COMPUTE,
    image_size: int | None = None,
) -> Checkpoint:
    """Like `load`, from the content of a config.json and tensors from any source."""
    config = hf_config.read(fields, compute, f"{source}/config.json")
    check_sizes(config, f"{source}/config.json")
    side = _stored_side(config, tensors)
    if side is not None and side != isqrt(config.patches):
        if image_size is None:
            raise InputError(
                f"{source}: config.json says image_size {config.image_size}, but the position "
                f"embedding has {side} x {side} patches of {config.patch_size} px; pass "
                f"image_size={config.image_size} to resample it"
            )
        config = replace(config, image_size=side * config.patch_size)
    params = to_ours(rules(config), expected_shapes(config), tensors, source)
    checkpoint = make_checkpoint(config, params, source)
    return checkpoint if image_size is None else at_image_size(checkpoint, image_size)


def save(
    folder: Path, config: Config, params: Params, extra_files_from: Path | None = None
) -> None:
    """Save a folder that transformers' SiglipModel or CLIPModel loads.

    Tokenizer and image processor files are copied from `extra_files_from`, the folder that the
    model was loaded from. The folder is created atomically and never replaces an existing one.
    """
    with new_folder(Path(folder)) as temporary:
        tensors = to_theirs(rules(config), expected_shapes(config), params)
        safetensors_files.write(temporary / safetensors_files.WEIGHTS, tensors)
        write_json(temporary / "config.json", hf_config.write(config))
        if extra_files_from is not None:
            copy_extra_files(Path(extra_files_from), temporary, config.image_size)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to `folder` on success."""
    check_is_new(folder)
    with named(folder), temporary_folder(folder.parent) as temporary:
        yield temporary
        # safetensors creates files that only their owner can read.
        mode = next(temporary.glob("*config.json")).stat().st_mode
        for path in temporary.glob("*.safetensors"):
            path.chmod(mode)
        os.replace(temporary, folder)


def check_is_new(folder: Path) -> None:
    """Raise `InputError` unless the folder is empty or does not exist."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already; give the name of a new folder")


def read_fields(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object")
    return content


def _stored_side(config: Config, tensors: Tensors) -> int | None:
    """Patches per side in the stored position embedding; None if they are not a square grid."""
    count = tensors.shapes.get(_POSITIONS, (0,))[0] - isinstance(config, CLIPConfig)
    return isqrt(count) if count > 0 and isqrt(count) ** 2 == count else None


def copy_extra_files(source: Path, target: Path, image_size: int) -> None:
    """Copy tokenizer and image settings, with the image size of the model that is saved."""
    for name in _EXTRA_FILES:
        if not (source / name).is_file():
            continue
        shutil.copyfile(source / name, target / name)
        if name in (_PREPROCESSOR, _PROCESSOR):
            fields = read_fields(source / name)
            resized = _resized(fields, image_size)
            if resized != fields:
                write_json(target / name, resized)


def _resized(fields: dict[str, Any], image_size: int) -> dict[str, Any]:
    """Adapt the image processor's sizes to a model whose position embedding was resampled."""
    if isinstance(fields.get("image_processor"), dict):  # transformers 5 nests it
        return {**fields, "image_processor": _resized(fields["image_processor"], image_size)}
    sizes = {key: fields[key] for key in ("size", "crop_size") if fields.get(key)}
    result = sizes.get("crop_size", sizes.get("size"))  # cropping is the last step
    if result is None or result == _like(result, image_size):
        return fields
    return {**fields, **{key: _like(size, image_size) for key, size in sizes.items()}}


def _like(size: Any, number: int) -> Any:
    """`number` in the same form as `size`: a number, or an object with named sides."""
    return dict.fromkeys(size, number) if isinstance(size, dict) else number
