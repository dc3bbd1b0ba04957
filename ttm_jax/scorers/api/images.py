"""Images as data URLs: looked at once for plan and cache key, encoded when first sent."""

import asyncio
import base64
import hashlib
import io
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from PIL import Image

from ttm_jax.image_decode import ImageError, ImageSource, decode_rgb, encoded_bytes, name_of
from ttm_jax.scorers.api.settings import ImageFormat

_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_JPEG_QUALITY = 95
_LARGEST = 20 * 2**20  # bytes; OpenAI's limit for one image
_ORIENTATION = 0x0112
_KEPT_ENCODED = 512 * 2**20  # bytes of data URLs that stay in memory
_WORKERS = 4


@dataclass(frozen=True)
class ImageFacts:
    """What is known of an image without encoding it: the hash of its content, and its size."""

    sha256: str
    width: int
    height: int


def look_at(sources: Sequence[ImageSource]) -> list[ImageFacts]:
    """Hash and size of every image; a bad file is named here, before anything is paid for."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(_facts, sources))


def sent_size(width: int, height: int, longest: int | None) -> tuple[int, int]:
    """Width and height after `longest` has been applied to the longer side."""
    if longest is None or max(width, height) <= longest:
        return width, height
    scale = longest / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def data_url(source: ImageSource, format: ImageFormat, longest: int | None) -> str:
    """The image as the request carries it.

    "keep" sends the bytes of a PNG, JPEG or WebP file untouched, as t2v_metrics does, unless it
    must shrink or its EXIF says that it lies on its side; then, and for what is in memory, PNG.
    """
    data = encoded_bytes(source)
    media = None if format != "keep" or data is None else _untouched(data, longest)
    if media is None or data is None:
        image = decode_rgb(source, data)
        size = sent_size(*image.size, longest)
        if size != image.size:
            image = image.resize(size, Image.Resampling.LANCZOS)
        media, data = _encode(image, "jpeg" if format == "jpeg" else "png")
    if len(data) > _LARGEST:
        raise ImageError(
            f"image {name_of(source)} takes {len(data) / 2**20:.0f} MB, more than the 20 MB of one "
            "image; give --max-image-size (2048 loses nothing with OpenAI) or --image-format jpeg"
        )
    return f"data:{media};base64,{base64.b64encode(data).decode('ascii')}"


class EncodedImages:
    """Data URLs by index, made in a thread when first asked for and shared by all who ask.

    The latest 512 MB stay in memory; requests come image by image, so that even with larger data
    every image is encoded once a run.
    """

    def __init__(
        self, sources: Sequence[ImageSource], format: ImageFormat, longest: int | None
    ) -> None:
        self._sources, self._format, self._longest = sources, format, longest
        self._made: OrderedDict[int, asyncio.Future[str]] = OrderedDict()
        self._bytes = 0
        self.encoded = 0  # how many times an image was encoded

    async def get(self, index: int) -> str:
        if index not in self._made:
            self.encoded += 1
            self._made[index] = asyncio.ensure_future(
                asyncio.to_thread(data_url, self._sources[index], self._format, self._longest)
            )
            self._made[index].add_done_callback(self._count)
        # Shielded: one request that is given up must not take the image away from the others.
        return await asyncio.shield(self._made[index])

    def _count(self, future: "asyncio.Future[str]") -> None:
        if not future.cancelled() and future.exception() is None:
            self._bytes += len(future.result())
            self._forget()

    def _forget(self) -> None:
        while self._bytes > _KEPT_ENCODED and len(self._made) > 1:
            oldest = self._made[next(iter(self._made))]
            if not oldest.done() or oldest.exception() is not None:
                return
            self._made.popitem(last=False)
            self._bytes -= len(oldest.result())


def _facts(source: ImageSource) -> ImageFacts:
    data = encoded_bytes(source)
    if data is not None:
        try:
            with Image.open(io.BytesIO(data)) as image:
                return ImageFacts(hashlib.sha256(data).hexdigest(), *_upright_size(image))
        except Exception:
            decode_rgb(source, data)  # says what is wrong with it, and where
            raise
    pixels = np.asarray(decode_rgb(source, None))
    digest = hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes())
    return ImageFacts(digest.hexdigest(), pixels.shape[1], pixels.shape[0])


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    return (height, width) if _orientation(image) >= 5 else (width, height)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # a damaged EXIF block does not spoil a good picture
        return 1


def _untouched(data: bytes, longest: int | None) -> str | None:
    """The media type if these bytes can be sent as they are."""
    with Image.open(io.BytesIO(data)) as image:
        fits = sent_size(*image.size, longest) == image.size
        still = getattr(image, "n_frames", 1) == 1
        upright = _orientation(image) == 1
        return _AS_THEY_ARE.get(image.format or "") if fits and still and upright else None


def _encode(image: Image.Image, format: ImageFormat) -> tuple[str, bytes]:
    buffer = io.BytesIO()
    if format == "jpeg":
        image.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    else:
        image.save(buffer, "PNG")
    return f"image/{format}", buffer.getvalue()
