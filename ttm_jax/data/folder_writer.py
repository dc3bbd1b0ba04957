"""Writes data as a folder that `read_folder` reads: PNG files, or copies, and the lists."""

import io
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ttm_jax.data.groups import UNKNOWN, Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point
from ttm_jax.files import temporary_folder
from ttm_jax.inputs.image_decode import (
    ImageError,
    ImageFile,
    ImageSource,
    NamedBytes,
    applies_exif,
    decode_rgb,
    encoded_bytes,
    orientation_of,
)

GROUPS, IMAGES, CAPTIONS = "groups.jsonl", "images.jsonl", "captions.jsonl"
PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


def write_folder(
    data: GroupedDataset | Sequence[Group],
    path: str | Path,
    grouped: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write a dataset as a folder that `read_folder` reads.

    The folder appears under its name only when it is complete. Images in memory are written as PNG;
    files and encoded bytes are copied unchanged.

    Args:
        data: A dataset, or its groups.
        path: The folder to write.
        grouped: Write `groups.jsonl`. False writes `images.jsonl` and `captions.jsonl`, for which
            the data has to be one group (`GroupedDataset.ungrouped`).
        overwrite: Replace the folder if it contains data in this format.

    Returns:
        The folder.

    Raises:
        InputError: The folder is not empty, cannot be written, or the data has no such form.

    Examples:
        >>> from ttm_jax import write_folder
        >>> from ttm_jax.data import world
        >>> dataset = world.make("color_swap", groups=3)
        >>> folder = write_folder(dataset, "grouped")
        >>> flat = write_folder(dataset.ungrouped(), "flat", grouped=False)
        >>> sorted(path.name for path in flat.iterdir())
        ['captions.jsonl', 'images', 'images.jsonl']
    """
    dataset = data if isinstance(data, GroupedDataset) else GroupedDataset.from_groups(data)
    _check_writable(dataset, grouped)
    target = Path(path)
    try:
        _repair(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from None
    _check_target(target, overwrite)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(target.parent) as draft:
            names = _write_images(dataset, draft)
            if grouped:
                _write_lines(draft / GROUPS, _group_lines(dataset, names))
            else:
                _write_ungrouped(dataset, names, draft)
            _move(draft, target)
    except OSError as error:  # a full disk, no permission
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from None
    return target


def _check_writable(dataset: GroupedDataset, grouped: bool) -> None:
    if isinstance(dataset.captions, np.ndarray):
        raise InputError(f"{dataset.name}: captions are token ids; only texts can be written")
    if isinstance(dataset.images, np.ndarray) and dataset.images.dtype != np.uint8:
        raise InputError(f"{dataset.name}: images are normalised; only pictures can be written")
    if grouped:
        return
    if len(dataset) != 1:
        raise InputError(
            f"{dataset.name} has {len(dataset)} groups; only one can be written without groups: "
            "call ungrouped() first"
        )
    truth = dataset.blocks[0].truth
    if truth is not None and (truth == UNKNOWN).any():
        raise InputError(
            f"{dataset.name}: some images have no true caption; without groups all or none must"
        )
    n_images, n_texts = dataset.blocks[0].shape
    if n_images > n_texts:
        raise InputError(
            f"{dataset.name} has {n_images} images for {n_texts} captions; without groups there "
            "must be at least as many captions as images"
        )


def _check_target(target: Path, overwrite: bool) -> None:
    if target.parent.exists() and not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: {target.parent} is not a folder")
    if not target.name:
        raise InputError(f"{target} cannot be written; expected the name of a new folder")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"{target} exists and is not a folder; choose another name")
    if not target.exists() or not any(target.iterdir()):
        return
    if not overwrite:
        raise InputError(f"{target} is not empty; choose another folder or ask to overwrite it")
    if not any((target / name).is_file() for name in (GROUPS, IMAGES)):
        raise InputError(f"{target} holds other data than {GROUPS}; it is not overwritten")


def _move(draft: Path, target: Path) -> None:
    if not target.exists():
        draft.rename(target)
        return
    # Not a temporary name: it is the user's data until the new folder has its place.
    old = target.with_name(f"{_old_prefix(target)}{secrets.token_hex(4)}")
    target.rename(old)
    fault_point("old folder set aside")
    try:
        draft.rename(target)
    except OSError:
        old.rename(target)
        raise
    fault_point("new folder in place")
    shutil.rmtree(old, ignore_errors=True)


def _old_prefix(target: Path) -> str:
    return f".{target.name}.old-"


def _repair(target: Path) -> None:
    """Finish what a killed process began: the old folder gets its name back, or goes for good."""
    if not target.parent.is_dir() or not target.name:
        return
    prefix = _old_prefix(target)
    found = (path for path in target.parent.iterdir() if path.name.startswith(prefix))
    for old in sorted(path for path in found if path.is_dir() and not path.is_symlink()):
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)


def _write_images(dataset: GroupedDataset, folder: Path) -> list[str]:
    """Write the pool under `images/`, numbered; the path of each image within the folder."""
    (folder / "images").mkdir()
    return [
        _write_image(image, folder, f"images/{i:05d}") for i, image in enumerate(dataset.images)
    ]


def _write_image(image: ImageSource, folder: Path, stem: str) -> str:
    """Encoded pictures keep their bytes; what is in memory becomes a PNG.

    So does a picture whose EXIF orientation is to be ignored: whoever reads a folder applies it.
    """
    if not applies_exif(image) and _is_turned(image):
        decode_rgb(image, encoded_bytes(image)).save(folder / f"{stem}.png")
        return f"{stem}.png"
    if isinstance(image, NamedBytes):
        name = stem + _suffix(image)
        (folder / name).write_bytes(image.data)
        return name
    if isinstance(image, str | os.PathLike):
        is_part = isinstance(image, ImageFile) and image.box is not None
        name = stem + (".png" if is_part else Path(image).suffix.lower())
        try:
            (folder / name).write_bytes(encoded_bytes(image) or b"")
        except ImageError as error:
            raise InputError(f"{error}; it cannot be copied") from None
        return name
    picture = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    if picture.mode not in PNG_MODES:
        picture = picture.convert("RGB")
    picture.save(folder / f"{stem}.png")
    return f"{stem}.png"


def _is_turned(image: ImageSource) -> bool:
    with Image.open(io.BytesIO(encoded_bytes(image) or b"")) as picture:
        return orientation_of(picture) != 1


def _suffix(image: NamedBytes) -> str:
    try:
        with Image.open(io.BytesIO(image.data)) as picture:
            return f".{(picture.format or 'png').lower()}"
    except OSError:
        raise InputError(f"image {image.name} cannot be decoded") from None


def _group_lines(dataset: GroupedDataset, names: list[str]) -> Iterable[dict[str, Any]]:
    for block in dataset.blocks:
        for g, identity in enumerate(block.ids):
            line: dict[str, Any] = {
                "id": identity,
                "images": [names[i] for i in block.image_index[g]],
                "captions": [dataset.captions[i] for i in block.text_index[g]],
            }
            if block.truth is not None:
                line["truth"] = [None if t == UNKNOWN else int(t) for t in block.truth[g]]
            if block.tags and block.tags[g]:
                line["tags"] = list(block.tags[g])
            yield line


def _write_ungrouped(dataset: GroupedDataset, names: list[str], folder: Path) -> None:
    (block,) = dataset.blocks
    captions = [{"caption": dataset.captions[i]} for i in block.text_index[0]]
    images: list[dict[str, Any]] = [{"image": names[i]} for i in block.image_index[0]]
    if block.truth is not None:
        for line, caption in zip(images, block.truth[0], strict=True):
            line["caption"] = int(caption)
    _write_lines(folder / CAPTIONS, captions)
    _write_lines(folder / IMAGES, images)


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8", newline="\n")
