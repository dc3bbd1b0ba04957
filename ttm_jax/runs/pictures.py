"""What the groups of a run look like: captions, tags and small pictures, kept in the run folder.

    groups.json       every group: pictures, captions, truth, tags
    thumbnails.zip    0.jpg, 1.jpg, ...: the pool of pictures, small

So a report needs only the run folder, also on another computer. The files are written once, and the
engine never reads them. The seeds of an experiment share those of the folder around them.
"""

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.data.unreadable_images import name_group
from ttm_jax.files import write_atomic, write_text
from ttm_jax.inputs.image_decode import ImageError, ImageSource, decode_rgb, encoded_bytes, name_of
from ttm_jax.limits import allowed, variable
from ttm_jax.runs.identity import dataset_checksum
from ttm_jax.runs.read.fields import Fields, Place
from ttm_jax.runs.read.json_files import read_object
from ttm_jax.runs.read.zip_files import open_zip

GROUPS, THUMBNAILS = "groups.json", "thumbnails.zip"
_QUALITY, _THREADS = 78, 4
# Up to how many pictures, and the pixels of their longer side: few may be large, and a page with
# thousands stays small enough to be sent around.
_SIDES, _SMALLEST_SIDE = ((200, 384), (1000, 240)), 144
# What Pillow raises for files that only look like a picture.
_NO_JPEG = (
    OSError, EOFError, ValueError, SyntaxError, TypeError, KeyError, IndexError, OverflowError,
    struct.error, Image.DecompressionBombError,
)  # fmt: skip


@dataclass(frozen=True)
class PicturedGroup:
    """A group as a reader sees it; `images` and `captions` count in the pools of the run."""

    id: str
    images: tuple[int, ...]
    captions: tuple[int, ...]
    truth: tuple[int, ...] | None
    tags: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.images), len(self.captions)


@dataclass(frozen=True)
class RunPictures:
    """Groups in the order of the run; a caption of a dataset of arrays is None."""

    groups: tuple[PicturedGroup, ...]
    captions: tuple[str | None, ...] = field(repr=False)
    folder: Path
    checksum: str
    """Of the dataset, as in config.json (of a global matching, of the data with its groups)."""
    count: int
    """How many pictures the pool has."""
    names: tuple[str | None, ...] = field(default=(), repr=False)
    """The files that they came from; None for a picture that was made in memory."""

    @property
    def has_thumbnails(self) -> bool:
        return (self.folder / THUMBNAILS).exists()

    def thumbnails(self) -> tuple[bytes, ...]:
        """The JPEG file of every picture of the pool."""
        path, most = self.folder / THUMBNAILS, allowed("THUMBNAIL_BYTES")
        with open_zip(path, "THUMBNAILS_BYTES", self.count) as archive:
            names = [f"{number}.jpg" for number in range(self.count)]
            if archive.names != names:
                raise Place(path).error(
                    f"holds {len(archive.names)} pictures; {GROUPS} names {self.count}: expected "
                    "0.jpg, 1.jpg and so on; remove both files to go without pictures"
                )
            files = tuple(archive.read(name, most) for name in names)
        for name, data in zip(names, files, strict=True):
            _check_jpeg(data, name, Place(path))
        return files


def save_pictures(folder: Path, dataset: GroupedDataset) -> None:
    """Write both files unless the folder, or the one around it, has them already."""
    if (folder / GROUPS).exists():
        return
    checksum = dataset_checksum(dataset)
    above = folder.parent / GROUPS
    if above.exists() and read_object(above, "JSON_BYTES").values.get("checksum") == checksum:
        return
    write_atomic(folder / THUMBNAILS, lambda file: _pack(file, dataset))
    write_text(folder / GROUPS, _as_text(dataset, checksum))  # last: says that both are there


def find_pictures(run: Path) -> RunPictures | None:
    """Those of a run folder, or of the experiment that it belongs to; None if there are none."""
    for folder in (run, run.parent):
        if (folder / GROUPS).exists():
            return read_pictures(folder)
    return None


def read_pictures(folder: Path) -> RunPictures:
    """groups.json of a folder, with every index checked."""
    found = read_object(folder / GROUPS, "JSON_BYTES")
    images, captions = found.strings("images", null=True), found.strings("captions", null=True)
    groups = []
    for number, entry in enumerate(found.array("groups")):
        if not isinstance(entry, dict):
            raise found.item_error("groups", number, "an object in braces")
        group = Fields(entry, found.place, f"groups[{number}]")
        groups.append(_read_group(group, len(images), len(captions)))
    return RunPictures(
        groups=tuple(groups),
        captions=tuple(captions),
        folder=folder,
        checksum=found.string("checksum"),
        count=len(images),
        names=tuple(images),
    )


def _read_group(found: Fields, images: int, captions: int) -> PicturedGroup:
    chosen = found.integers("images", 0, images - 1)
    texts = found.integers("captions", 0, captions - 1)
    truth = None
    if found.get("truth") is not None:
        truth = tuple(found.integers("truth", -1, len(texts) - 1, len(chosen)))
    return PicturedGroup(
        found.string("id"), tuple(chosen), tuple(texts), truth, tuple(found.strings("tags"))
    )


def _check_jpeg(data: bytes, name: str, place: Place) -> None:
    """A browser will decode it: it must be a JPEG, and not one of a million pixels a side."""
    most = allowed("THUMBNAIL_SIDE")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:  # reads the header only
                width, height = image.size
    except _NO_JPEG:
        raise place.error(f"{name} is not a JPEG file") from None
    if max(width, height) > most:
        raise place.error(
            f"{name} is {width} x {height}; at most {most} are expected "
            f"({variable('THUMBNAIL_SIDE')} raises this)"
        )


def _as_text(dataset: GroupedDataset, checksum: str) -> str:
    """JSON with one line per group, so that people can read it too."""
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


def _name(image: ImageSource) -> str | None:
    """Where a picture came from; one that was made in memory has no name."""
    if isinstance(image, (np.ndarray, Image.Image)):
        return None
    return name_of(image).encode("utf-8", "backslashreplace").decode()  # names need not be UTF-8


def _pack(file: Any, dataset: GroupedDataset) -> None:
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        packed = 0
        side = thumbnail_side(len(dataset.images))
        try:
            for data in pool.map(lambda image: _thumbnail(image, side), dataset.images):
                archive.writestr(zipfile.ZipInfo(f"{packed}.jpg"), data)
                packed += 1
        except ImageError as error:
            error.position = packed
            raise name_group(dataset, error) from error


def thumbnail_side(pictures: int) -> int:
    """Pixels of the longer side of every small picture of a run that has this many."""
    return next((side for most, side in _SIDES if pictures <= most), _SMALLEST_SIDE)


def _thumbnail(source: ImageSource, side: int) -> bytes:
    if isinstance(source, np.ndarray) and source.dtype != np.uint8:
        # Normalised by an unknown mean and deviation; a half of each is close enough to look at.
        source = np.clip(np.rint(255 * (source / 2 + 0.5)), 0, 255).astype(np.uint8)
    image = decode_rgb(source, encoded_bytes(source))
    image.thumbnail((side, side), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, "jpeg", quality=_QUALITY)
    return buffer.getvalue()
