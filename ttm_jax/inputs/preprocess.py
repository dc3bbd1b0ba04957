"""From a picture, however it is stored, to uint8 [height, width, 3] as the checkpoint wants it.

    processor = ImageProcessor.from_folder("checkpoints/siglip-base-patch16-224", "siglip")
    pixels = processor.batch(["a.jpg", "b.png"])               # uint8, on the host
    images = normalise(pixels, processor.mean, processor.std)  # float32, best inside jax.jit

This module does not import jax, so that commands can answer `--help` quickly.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from ttm_jax.config import Family
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_cache import PixelCache
from ttm_jax.inputs.image_config import DEFAULTS, Colour, ImageSettings, read_image_settings
from ttm_jax.inputs.image_decode import (
    Alpha,
    ImageError,
    ImageFile,
    ImageSource,
    NamedBytes,
    applies_exif,
    decode_rgb,
    encoded_bytes,
    key_of,
    name_of,
)
from ttm_jax.inputs.image_resize import Kind, Mode, centre, resize, resized_size
from ttm_jax.progress_bar import progress_bar

__all__ = ["ImageError", "ImageFile", "ImageProcessor", "ImageSource", "NamedBytes", "normalise"]


@dataclass(frozen=True)
class ImageProcessor:
    """Makes every picture `size` x `size` RGB.

    `kind` is "squash" (SigLIP: straight to the square, the aspect is lost) or
    "shorter_side+center_crop" (CLIP; "shorter_side+rounded_crop" in OpenCLIP). `mode` "pil" resizes
    with Pillow and the checkpoint's filter; "big_vision" resizes bilinearly without antialias and
    does not look at `resample`. `exif` is whether the EXIF orientation is applied, except to
    sources that say that it is not (`ImageFile`, `NamedBytes`). `alpha` "drop" ignores
    transparency, "white" lays the picture on white.
    """

    kind: Kind
    size: int
    resample: Image.Resampling
    mean: Colour
    std: Colour
    mode: Mode = "pil"
    exif: bool = True
    alpha: Alpha = "drop"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"image size is {self.size}; expected at least 1 pixel")

    @classmethod
    def for_family(cls, family: Family, size: int | None = None) -> "ImageProcessor":
        """The processor of OpenAI's CLIP or Google's SigLIP (224 pixels unless told)."""
        processor = _from_settings(DEFAULTS[family])
        return processor if size is None else processor.with_size(size)

    @classmethod
    def from_folder(cls, folder: str | os.PathLike, family: Family) -> "ImageProcessor":
        """As the checkpoint's own files say; without such files the default of the family."""
        return _from_settings(read_image_settings(folder, family))

    def with_size(self, size: int) -> "ImageProcessor":
        """The same processor for another size, e.g. a little larger for random crops."""
        return replace(self, size=size)

    def __call__(self, source: ImageSource) -> UInt8[np.ndarray, "size size 3"]:
        return self._pixels(source, None)

    def batch(
        self,
        sources: Sequence[ImageSource],
        workers: int | None = None,
        progress: bool = True,
        cache_dir: str | os.PathLike | None = None,
        label: str = "images",
    ) -> UInt8[np.ndarray, "n size size 3"]:
        """All pictures as one array; one that is listed twice is decoded once.

        Works in `workers` threads (by default one per core): Pillow releases Python's lock while it
        decodes and resizes. With `cache_dir`, files and bytes are looked up there first; what is in
        memory already is not cached. The progress bar is shown on a terminal only. A picture that
        fails raises `ImageError` with its `position` in `sources`.
        """
        cache = None if cache_dir is None else PixelCache(cache_dir, self._settings(), self.size)
        pixels = np.empty((len(sources), self.size, self.size, 3), np.uint8)

        def fill(i: int) -> None:
            pixels[i] = self._pixels(sources[i], cache)

        first = fill_distinct(sources, fill, workers, label if progress else None)
        for i, row in enumerate(first):
            if row != i:
                pixels[i] = pixels[row]
        return pixels

    def uncropped(
        self,
        sources: Sequence[ImageSource],
        workers: int | None = None,
        progress: bool = True,
        label: str = "images",
    ) -> list[UInt8[np.ndarray, "_ _ 3"]]:
        """All pictures resized but not cropped, each with its own height and width.

        One that is listed twice is decoded once, and is the same array in both places.
        """
        pictures: list[Any] = [None] * len(sources)

        def fill(i: int) -> None:
            pictures[i] = self._resized(sources[i], encoded_bytes(sources[i]))

        first = fill_distinct(sources, fill, workers, label if progress else None)
        return [pictures[row] for row in first]

    def _pixels(self, source: ImageSource, cache: PixelCache | None) -> np.ndarray:
        data = encoded_bytes(source)
        if cache is None or data is None:
            return self._square(source, data)
        exif = self.exif and applies_exif(source)
        return cache.fetch(data, lambda: self._square(source, data), f"exif={exif}")

    def _square(self, source: ImageSource, data: bytes | None) -> np.ndarray:
        return centre(self._resized(source, data), self.size, self.kind)

    def _resized(self, source: ImageSource, data: bytes | None) -> np.ndarray:
        image = decode_rgb(source, data, self.exif, self.alpha)
        width, height = resized_size(*image.size, self.kind, self.size)
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and width * height > limit:
            raise ImageError(
                f"image {name_of(source)} is {image.width} x {image.height}; with its shorter side "
                f"at {self.size} it would have {width * height} pixels; crop it first"
            )
        return resize(image, self.kind, self.size, self.resample, self.mode)

    def _settings(self) -> str:
        """What decides the uint8 pixels of every image, for the cache; 2 is our own version."""
        resample = self.resample.name if self.mode == "pil" else "-"
        return f"2 {self.kind} {self.size} {resample} {self.mode} {self.alpha}"


def normalise(
    pixels: UInt8[Any, "*batch h w 3"], mean: Colour, std: Colour
) -> Float32[Any, "*batch h w 3"]:
    """(pixels / 255 - mean) / std in float32, for numpy and jax arrays alike.

    Call it inside the jitted function that uses the images: the host then sends a quarter of the
    bytes, and the arithmetic is fused.
    """
    shape = (1,) * (pixels.ndim - 1) + (3,)
    centre = np.asarray(mean, np.float32).reshape(shape)
    spread = np.asarray(std, np.float32).reshape(shape)
    return (pixels.astype(np.float32) / np.float32(255) - centre) / spread


def _from_settings(settings: ImageSettings) -> ImageProcessor:
    return ImageProcessor(
        settings.kind, settings.size, settings.resample, settings.mean, settings.std
    )


def fill_distinct(
    sources: Sequence[ImageSource],
    fill: Callable[[int], None],
    workers: int | None,
    label: str | None,
) -> list[int]:
    """Call `fill` once for each distinct source; returns where each source is listed first."""
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; expected at least 1")
    keys = [key_of(source) for source in sources]
    first = {key: i for i, key in reversed(list(enumerate(keys)))}

    def fill_or_name(i: int) -> None:
        try:
            fill(i)
        except ImageError as error:
            error.position = i
            raise

    run_in_threads(fill_or_name, sorted(first.values()), workers, label)
    return [first[key] for key in keys]


def _cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_threads(
    fill: Callable[[int], None], rows: list[int], workers: int | None, label: str | None
) -> None:
    """Call `fill` for every row; the error of the first bad row is raised, the rest is dropped."""
    workers = workers or _cores()
    with _progress_bar(label, len(rows)) as advance:
        if min(workers, len(rows)) <= 1:
            for row in rows:
                fill(row)
                advance()
            return
        pool = ThreadPoolExecutor(min(workers, len(rows)), "decode")
        try:
            for _ in pool.map(fill, rows):
                advance()
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _progress_bar(label: str | None, total: int) -> Iterator[Callable[[], None]]:
    if label is None or total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    with progress_bar() as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
