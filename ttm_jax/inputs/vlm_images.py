"""Image preprocessing for SmolVLM: square tiles, plus one tile with the whole image.

The steps match transformers' Idefics3 image processor on Pillow, pixel for pixel: resize the longer
side to 2048, then both sides up to multiples of 512, then cut tiles in row order and squeeze the
whole image into one more tile. Without splitting, only that one tile is made.

This module does not import jax, so that commands can answer `--help` quickly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ttm_jax.errors import InputError
from ttm_jax.inputs.image_config import Colour
from ttm_jax.inputs.image_decode import (
    Alpha,
    ImageError,
    ImageSource,
    decode_rgb,
    encoded_bytes,
    key_of,
)
from ttm_jax.inputs.json_files import read_optional_json
from ttm_jax.inputs.preprocess import run_in_threads

_LARGEST = 4096  # maximum length of a side, whatever the settings say
_FILES = ("preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True, eq=False)
class Tiles:
    """The tiles of one image in row order, followed by the whole image (alone if rows == 0)."""

    pixels: UInt8[np.ndarray, "tile size size 3"]
    rows: int
    columns: int


@dataclass(frozen=True)
class TileProcessor:
    """Makes tiles of `size` x `size`; `longest` is the longer side that a picture is scaled to.

    `alpha` "drop" ignores transparency, as the program of the paper does for all models before it
    calls a processor; "white" lays the picture on white, as transformers' own processor would.
    """

    size: int = 512
    longest: int = 2048
    resample: Image.Resampling = Image.Resampling.LANCZOS
    mean: Colour = (0.5, 0.5, 0.5)
    std: Colour = (0.5, 0.5, 0.5)
    splitting: bool = True
    alpha: Alpha = "drop"

    def __post_init__(self) -> None:
        if self.size < 1 or self.longest < 1:
            raise InputError(
                f"tile size is {self.size} px and image size {self.longest} px; expected at least 1"
            )

    @classmethod
    def from_folder(cls, folder: Path) -> "TileProcessor":
        """Read the checkpoint's own files; missing settings default to SmolVLM's."""
        where, fields = _read_settings(folder)
        for key in ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb"):
            if not fields.get(key, True):
                raise InputError(f"{where}: {key} is false, which is not supported; expected true")
        plain = cls()
        return cls(
            size=_edge(fields, "max_image_size", plain.size, where),
            longest=_edge(fields, "size", plain.longest, where),
            resample=Image.Resampling(fields.get("resample", plain.resample)),
            mean=tuple(fields.get("image_mean", plain.mean)),
            std=tuple(fields.get("image_std", plain.std)),
            splitting=bool(fields.get("do_image_splitting", plain.splitting)),
        )

    def with_splitting(self, splitting: bool | None) -> "TileProcessor":
        return self if splitting is None else replace(self, splitting=splitting)

    def __call__(self, source: ImageSource) -> Tiles:
        image = decode_rgb(source, encoded_bytes(source), alpha=self.alpha)
        image = image.resize(scaled_size(*image.size, self.longest), self.resample)
        whole = (self.size, self.size)
        if not self.splitting:
            return Tiles(np.asarray(image.resize(whole, self.resample))[None], 0, 0)
        image = image.resize(tiled_size(*image.size, self.size), self.resample)
        columns, rows = image.width // self.size, image.height // self.size
        if rows == columns == 1:
            return Tiles(np.asarray(image)[None], 0, 0)
        pixels = np.asarray(image).reshape(rows, self.size, columns, self.size, 3)
        pixels = pixels.swapaxes(1, 2).reshape(-1, self.size, self.size, 3)
        last = np.asarray(image.resize(whole, self.resample))
        return Tiles(np.concatenate([pixels, last[None]]), rows, columns)

    def batch(
        self, sources: Sequence[ImageSource], workers: int | None = None, progress: bool = True
    ) -> list[Tiles]:
        """The tiles of all images; an image that is listed twice is decoded once.

        An image that fails raises `ImageError` with its `position` in `sources`.
        """
        first = {key_of(source): i for i, source in reversed(list(enumerate(sources)))}
        found: dict[int, Tiles] = {}

        def fill(i: int) -> None:
            try:
                found[i] = self(sources[i])
            except ImageError as error:
                error.position = i
                raise

        run_in_threads(fill, sorted(first.values()), workers, "images" if progress else None)
        return [found[first[key_of(source)]] for source in sources]


def scaled_size(width: int, height: int, longest: int) -> tuple[int, int]:
    """Scale the longer side to `longest`, even up; round the other down, then up to even."""
    aspect = width / height
    if width >= height:
        width = longest
        height = int(width / aspect)
        height += height % 2
    else:
        height = longest
        width = int(height * aspect)
        width += width % 2
    width, height = max(width, 1), max(height, 1)
    aspect = width / height
    if width >= height and width > _LARGEST:
        return _LARGEST, max(int(_LARGEST / aspect), 1)
    if height > width and height > _LARGEST:
        return max(int(_LARGEST * aspect), 1), _LARGEST
    return width, height


def tiled_size(width: int, height: int, tile: int) -> tuple[int, int]:
    """Round both sides up to multiples of a tile; the shorter is scaled with the longer first."""
    aspect = width / height
    if width >= height:
        width = ceil(width / tile) * tile
        return width, max(ceil(int(width / aspect) / tile), 1) * tile
    height = ceil(height / tile) * tile
    return max(ceil(int(height * aspect) / tile), 1) * tile, height


def _read_settings(folder: Path) -> tuple[str, dict[str, Any]]:
    """Settings from the image processor's file or, since transformers 5, from the processor's."""
    for name in _FILES:
        fields = read_optional_json(folder / name)
        inner = fields.get("image_processor")
        if isinstance(inner, dict):
            return f"{folder}/{name}", inner
        if "max_image_size" in fields or "do_image_splitting" in fields:
            return f"{folder}/{name}", fields
    return str(folder), {}


def _edge(fields: dict[str, Any], key: str, default: int, where: str) -> int:
    value = fields.get(key) or {"longest_edge": default}
    edge = value.get("longest_edge") if isinstance(value, dict) else None
    if not isinstance(edge, int) or edge < 1:
        raise InputError(f'{where}: {key} is {value!r}; expected {{"longest_edge": a number}}')
    return edge
