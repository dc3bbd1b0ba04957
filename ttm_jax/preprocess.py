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

from ttm_jax.checkpoint_json import Family
from ttm_jax.errors import InputError
from ttm_jax.image_cache import PixelCache
from ttm_jax.image_config import DEFAULTS, Colour, ImageSettings, read_image_settings
from ttm_jax.image_decode import (
    Alpha,
    ImageError,
    ImageSource,
    NamedBytes,
    decode_rgb,
    encoded_bytes,
    key_of,
    name_of,
)
from ttm_jax.image_resize import Kind, Mode, resized_size, to_square

__all__ = ["ImageError", "ImageProcessor", "ImageSource", "NamedBytes", "normalise"]


@dataclass(frozen=True)
class ImageProcessor:
    """Makes every picture `size` x `size` RGB.

    `kind` is "squash" (SigLIP: straight to the square, the aspect is lost) or
    "shorter_side+center_crop" (CLIP). `mode` "pil" resizes with Pillow and the checkpoint's filter;
    "big_vision" resizes bilinearly without antialias and does not look at `resample`. `exif` turns
    pictures upright. `alpha` "drop" ignores transparency, "white" lays the picture on white.
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

        Works in `workers` threads (one a core unless told): Pillow lets go of Python's lock while
        it decodes and resizes. With `cache_dir`, files and bytes are looked up there first; what
        is in memory already is not cached. The progress bar is shown on a terminal only. A picture
        that fails raises `ImageError` with its `position` in `sources`.
        """
        if workers is not None and workers < 1:
            raise InputError(f"workers is {workers}; expected at least 1")
        cache = None if cache_dir is None else PixelCache(cache_dir, self._settings(), self.size)
        pixels = np.empty((len(sources), self.size, self.size, 3), np.uint8)
        first = {key_of(source): i for i, source in reversed(list(enumerate(sources)))}

        def fill(i: int) -> None:
            try:
                pixels[i] = self._pixels(sources[i], cache)
            except ImageError as error:
                error.position = i
                raise

        run_in_threads(fill, sorted(first.values()), workers, label if progress else None)
        for i, source in enumerate(sources):
            if first[key_of(source)] != i:
                pixels[i] = pixels[first[key_of(source)]]
        return pixels

    def _pixels(self, source: ImageSource, cache: PixelCache | None) -> np.ndarray:
        data = encoded_bytes(source)
        if cache is None or data is None:
            return self._decode(source, data)
        return cache.fetch(data, lambda: self._decode(source, data))

    def _decode(self, source: ImageSource, data: bytes | None) -> np.ndarray:
        image = decode_rgb(source, data, self.exif, self.alpha)
        width, height = resized_size(*image.size, self.kind, self.size)
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and width * height > limit:
            raise ImageError(
                f"image {name_of(source)} is {image.width} x {image.height}; with its shorter side "
                f"at {self.size} it would have {width * height} pixels; crop it first"
            )
        return to_square(image, self.kind, self.size, self.resample, self.mode)

    def _settings(self) -> str:
        """All that decides the uint8 pixels, for the cache; 1 is the version of our own steps."""
        resample = self.resample.name if self.mode == "pil" else "-"
        return f"1 {self.kind} {self.size} {resample} {self.mode} {self.exif} {self.alpha}"


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
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
