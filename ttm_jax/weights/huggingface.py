"""Hugging Face folders: config.json and safetensors -> our parameters, and back."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import Any
from uuid import uuid4

from ttm_jax.errors import InputError
from ttm_jax.files import read_json, write_json
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import hf_config, safetensors_files
from ttm_jax.weights.checkpoint_files import (
    DEFAULT_COMPUTE,
    Checkpoint,
    Config,
    Params,
    Tensors,
    expected_shapes,
    make_checkpoint,
)
from ttm_jax.weights.layout import to_ours, to_theirs
from ttm_jax.weights.names import rules
from ttm_jax.weights.positions import at_image_size

_POSITIONS = "vision_model.embeddings.position_embedding.weight"
_PREPROCESSOR, _PROCESSOR = "preprocessor_config.json", "processor_config.json"
# What belongs to a model besides its weights: the files of its tokenizer and image processor.
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
)


def load(
    folder: Path, *, compute: Compute = DEFAULT_COMPUTE, image_size: int | None = None
) -> Checkpoint:
    """Read a SigLIP or a CLIP as transformers saves it.

    Its image size is the one of its config.json. Another `image_size` resamples the position
    embedding; see ttm_jax/weights/positions.py for how.
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
    """The same from the content of a config.json and tensors from anywhere."""
    config = hf_config.read(fields, compute, f"{source}/config.json")
    side = _stored_side(config, tensors)
    if side is not None and side != isqrt(config.patches):
        if image_size is None:
            raise InputError(
                f"{source}: config.json says image_size {config.image_size}, but the position "
                f"embedding is of {side} x {side} patches of {config.patch_size} px; ask for an "
                f"image size (image_size={config.image_size}) to have it resampled"
            )
        config = replace(config, image_size=side * config.patch_size)
    params = to_ours(rules(config), expected_shapes(config), tensors, source)
    checkpoint = make_checkpoint(config, params, source)
    return checkpoint if image_size is None else at_image_size(checkpoint, image_size)


def save(
    folder: Path, config: Config, params: Params, extra_files_from: Path | None = None
) -> None:
    """Write a folder that transformers' own SiglipModel or CLIPModel loads.

    Tokenizer and image processor files are copied from `extra_files_from`, the folder that the
    model was loaded from. The folder appears whole or not at all, and replaces nothing.
    """
    with new_folder(Path(folder)) as temporary:
        tensors = to_theirs(rules(config), expected_shapes(config), params)
        safetensors_files.write(temporary / safetensors_files.WEIGHTS, tensors)
        write_json(temporary / "config.json", hf_config.write(config))
        if extra_files_from is not None:
            _copy_extra_files(Path(extra_files_from), temporary, config.image_size)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to fill, which takes the name `folder` when all went well."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already; give the name of a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex[:8]}")
    temporary.mkdir()
    try:
        yield temporary
        # safetensors makes its files readable by their owner alone.
        mode = (temporary / "config.json").stat().st_mode
        for path in temporary.glob("*.safetensors"):
            path.chmod(mode)
        os.replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def read_fields(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object")
    return content


def _stored_side(config: Config, tensors: Tensors) -> int | None:
    """Patches along one side that the file has positions for; None when it is no square grid."""
    count = tensors.shapes.get(_POSITIONS, (0,))[0] - isinstance(config, CLIPConfig)
    return isqrt(count) if count > 0 and isqrt(count) ** 2 == count else None


def _copy_extra_files(source: Path, target: Path, image_size: int) -> None:
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
    """The image processor of a model whose position embedding was resampled follows it."""
    if isinstance(fields.get("image_processor"), dict):  # transformers 5 puts it inside another
        return {**fields, "image_processor": _resized(fields["image_processor"], image_size)}
    sizes = {key: fields[key] for key in ("size", "crop_size") if fields.get(key)}
    result = sizes.get("crop_size", sizes.get("size"))  # what comes out is cropped last
    if result is None or result == _like(result, image_size):
        return fields
    return {**fields, **{key: _like(size, image_size) for key, size in sizes.items()}}


def _like(size: Any, number: int) -> Any:
    """`number`, written as `size` is: a number, or an object of sides."""
    return dict.fromkeys(size, number) if isinstance(size, dict) else number
