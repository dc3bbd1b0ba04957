"""What the groups of a run look like: captions, tags and small pictures, kept in the run folder.

    groups.json       every group: pictures, captions, truth, tags
    thumbnails.zip    0.jpg, 1.jpg, ...: the pool of pictures, small

So a report needs the run folder only, also on another computer. The files are written once and
never read by the engine. Seeds of one experiment share those of the folder around them.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ttm_jax.data.broken import name_group
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.files import read_json, write_atomic, write_text
from ttm_jax.image_decode import ImageError, ImageSource, decode_rgb, encoded_bytes, name_of
from ttm_jax.runlog import dataset_checksum

GROUPS, THUMBNAILS = "groups.json", "thumbnails.zip"
_SIDE, _QUALITY, _THREADS = 144, 78, 4


@dataclass(frozen=True)
class PicturedGroup:
    """A group as a reader sees it; `images` and `captions` count in the pools of the run."""

    id: str
    images: tuple[int, ...]
    captions: tuple[int, ...]
    truth: tuple[int, ...] | None
    tags: tuple[str, ...]


@dataclass(frozen=True)
class RunPictures:
    """Groups in the order of the run; a caption of a dataset of arrays is None."""

    groups: tuple[PicturedGroup, ...]
    captions: tuple[str | None, ...] = field(repr=False)
    folder: Path

    def thumbnails(self) -> tuple[bytes, ...]:
        """The JPEG file of every picture of the pool."""
        path = self.folder / THUMBNAILS
        try:
            with zipfile.ZipFile(path) as archive:
                count = len(archive.namelist())
                return tuple(archive.read(f"{number}.jpg") for number in range(count))
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} cannot be read: {error}; remove it to go without") from error


def save(folder: Path, dataset: GroupedDataset) -> None:
    """Write both files unless the folder, or the one around it, has them already."""
    if (folder / GROUPS).exists():
        return
    checksum = dataset_checksum(dataset)
    above = folder.parent / GROUPS
    if above.exists() and read_json(above).get("checksum") == checksum:
        return
    write_atomic(folder / THUMBNAILS, lambda file: _pack(file, dataset))
    write_text(folder / GROUPS, _as_text(dataset, checksum))  # last: says that both are there


def find(run: Path) -> RunPictures | None:
    """Those of a run folder, or of the experiment that it belongs to; None if there are none."""
    for folder in (run, run.parent):
        if (folder / GROUPS).exists():
            content = read_json(folder / GROUPS)
            groups = tuple(_group(entry) for entry in content["groups"])
            return RunPictures(groups, tuple(content["captions"]), folder)
    return None


def _as_text(dataset: GroupedDataset, checksum: str) -> str:
    """JSON with a line a group, so that people can read it too."""
    captions: list[str | None]
    if isinstance(dataset.captions, np.ndarray):
        captions = [None] * len(dataset.captions)
    else:
        captions = list(dataset.captions)
    head = {
        "dataset": dataset.name,
        "checksum": checksum,
        "images": [_name(image) for image in dataset.images],
        "captions": captions,
    }
    lines = [json.dumps(head, ensure_ascii=False)[:-1] + ', "groups": [']
    rows = [json.dumps(row, ensure_ascii=False) for row in _rows(dataset)]
    return "\n".join([*lines, ",\n".join(rows), "]}"]) + "\n"


def _rows(dataset: GroupedDataset) -> Iterator[dict[str, Any]]:
    for block in dataset.blocks:
        for row, name in enumerate(block.ids):
            yield {
                "id": name,
                "images": block.image_index[row].tolist(),
                "captions": block.text_index[row].tolist(),
                "truth": None if block.truth is None else block.truth[row].tolist(),
                "tags": _tags(block, row),
            }


def _tags(block: Block, row: int) -> list[str]:
    return list(block.tags[row]) if block.tags else []


def _group(entry: dict[str, Any]) -> PicturedGroup:
    truth = entry["truth"]
    return PicturedGroup(
        id=entry["id"],
        images=tuple(entry["images"]),
        captions=tuple(entry["captions"]),
        truth=None if truth is None else tuple(truth),
        tags=tuple(entry["tags"]),
    )


def _name(image: ImageSource) -> str | None:
    """Where a picture came from; one that was made in memory has no name."""
    return None if isinstance(image, (np.ndarray, Image.Image)) else name_of(image)


def _pack(file: Any, dataset: GroupedDataset) -> None:
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        packed = 0
        try:
            for data in pool.map(_thumbnail, dataset.images):
                archive.writestr(zipfile.ZipInfo(f"{packed}.jpg"), data)
                packed += 1
        except ImageError as error:
            error.position = packed
            raise name_group(dataset, error) from error


def _thumbnail(source: ImageSource) -> bytes:
    if isinstance(source, np.ndarray) and source.dtype != np.uint8:
        # Normalised by an unknown mean and deviation; a half of each is close enough to look at.
        source = np.clip(np.rint(255 * (source / 2 + 0.5)), 0, 255).astype(np.uint8)
    image = decode_rgb(source, encoded_bytes(source))
    image.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, "jpeg", quality=_QUALITY)
    return buffer.getvalue()
