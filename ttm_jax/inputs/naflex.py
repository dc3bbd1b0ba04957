"""Pictures for SigLIP 2 NaFlex: the aspect is kept, and each becomes up to so many patches.

A picture becomes uint8 [max_patches, patch * patch * 3 + 4]: its patches in row order, padded with
zeros. Behind every patch are the numbers of rows and columns of the picture, two bytes each. So all
pictures are one array, whatever their shapes.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ttm_jax.errors import InputError
from ttm_jax.inputs.image_config import Colour, read_colour, read_image_fields, read_resample
from ttm_jax.inputs.image_decode import Alpha, ImageSource, decode_rgb, encoded_bytes
from ttm_jax.inputs.preprocess import fill_distinct

SHAPE_BYTES = 4
_HALF: Colour = (0.5, 0.5, 0.5)
_STEP = 1e-5  # of the search for the scale, in transformers
_MOST = 65535  # patches


@dataclass(frozen=True)
class NaflexProcessor:
    """Resizes every picture to at most `max_patches` patches, keeping its aspect."""

    patch_size: int = 16
    max_patches: int = 256
    resample: Image.Resampling = Image.Resampling.BILINEAR
    mean: Colour = _HALF
    std: Colour = _HALF
    exif: bool = True
    alpha: Alpha = "drop"

    @classmethod
    def from_folder(cls, folder: str | os.PathLike) -> "NaflexProcessor":
        """As the checkpoint's own files say; without such files the defaults of transformers."""
        file, fields = read_image_fields(Path(folder))
        for name in ("do_resize", "do_rescale", "do_normalize"):
            if fields.get(name, True) is not True:
                raise InputError(f"{file}: {name} is {fields[name]!r}, which is not supported")
        plain = cls()
        sizes = [fields.get("patch_size", 16), fields.get("max_num_patches", 256)]
        for value in sizes:
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
                raise InputError(f"{file}: {value!r:.40} patches or pixels; expected 1 to {_MOST}")
        return cls(
            sizes[0],
            sizes[1],
            read_resample(fields, file, plain.resample),
            read_colour(fields, file, "image_mean", plain.mean),
            read_colour(fields, file, "image_std", plain.std),
        )

    def __post_init__(self) -> None:
        if 0 in self.std:
            raise InputError(f"image_std is {self.std}; expected no zero")

    def __call__(self, source: ImageSource) -> UInt8[np.ndarray, "n d"]:
        p = self.patch_size
        image = decode_rgb(source, encoded_bytes(source), self.exif, self.alpha)
        rows, columns = grid_of(*image.size, p, self.max_patches)
        pixels = np.asarray(image.resize((columns * p, rows * p), self.resample))
        patches = pixels.reshape(rows, p, columns, p, 3).swapaxes(1, 2)
        packed = np.zeros((self.max_patches, p * p * 3 + SHAPE_BYTES), np.uint8)
        packed[: rows * columns, :-SHAPE_BYTES] = patches.reshape(rows * columns, -1)
        packed[:, -SHAPE_BYTES:] = [*divmod(rows, 256), *divmod(columns, 256)]
        return packed

    def batch(
        self,
        sources: Sequence[ImageSource],
        workers: int | None = None,
        progress: bool = True,
        label: str = "images",
    ) -> UInt8[np.ndarray, "count n d"]:
        """All pictures as one array; one that is listed twice is decoded once.

        A picture that fails raises `ImageError` with its `position` in `sources`.
        """
        width = self.patch_size**2 * 3 + SHAPE_BYTES
        packed = np.zeros((len(sources), self.max_patches, width), np.uint8)

        def fill(i: int) -> None:
            packed[i] = self(sources[i])

        first = fill_distinct(sources, fill, workers, label if progress else None)
        for i, row in enumerate(first):
            if row != i:
                packed[i] = packed[row]
        return packed


def grid_of(width: int, height: int, patch: int, most: int) -> tuple[int, int]:
    """Rows and columns of patches: the largest scale at which there are at most `most`.

    Found by bisection, in the steps of transformers, so that both round alike.
    """

    def at(scale: float) -> tuple[int, int]:
        rows, columns = (max(1, ceil(side * scale / patch)) for side in (height, width))
        return rows, columns

    low, high = _STEP / 10, 100.0
    while high - low >= _STEP:
        middle = (low + high) / 2
        rows, columns = at(middle)
        low, high = (middle, high) if rows * columns <= most else (low, middle)
    return at(low)


def patches_of(packed: Any) -> Any:
    """Without the shape, as [..., n, pixel, 3]; for numpy and jax arrays alike."""
    return packed[..., :-SHAPE_BYTES].reshape(*packed.shape[:-1], -1, 3)
