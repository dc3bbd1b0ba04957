"""Images as data URLs: inspected once for the plan and the cache keys, encoded when first sent."""

import asyncio
import base64
import hashlib
import io
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image

from ttm_jax.inputs.image_decode import (
    ImageError,
    ImageSource,
    applies_exif,
    decode_rgb,
    encoded_bytes,
    name_of,
)

ImageFormat = Literal["keep", "png", "jpeg"]
_SENT_UNCHANGED = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_JPEG_QUALITY = 95
_MAX_BYTES = 20 * 2**20  # OpenAI's limit for one image
_ORIENTATION = 0x0112
_CACHED_BYTES = 512 * 2**20  # of data URLs that stay in memory
_WORKERS = 4


@dataclass(frozen=True)
class ImageFacts:
    """What a plan needs to know about an image: the hash of its content, and its size."""

    sha256: str
    width: int
    height: int


def inspect_images(sources: Sequence[ImageSource]) -> list[ImageFacts]:
    """Hash and size of every image. A bad file is reported here, before anything is paid for."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(_facts, sources))


def sent_size(width: int, height: int, max_size: int | None) -> tuple[int, int]:
    """Width and height after the longer side is limited to `max_size`."""
    if max_size is None or max(width, height) <= max_size:
        return width, height
    scale = max_size / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def data_url(source: ImageSource, format: ImageFormat, max_size: int | None) -> str:
    """The image as it is sent.

    "keep" sends the bytes of a PNG, JPEG or WebP file unchanged, as t2v_metrics does. Images that
    must be shrunk or rotated (EXIF), other formats and images in memory become PNG.
    """
    data = encoded_bytes(source)
    media = None if format != "keep" or data is None else _unchanged(data, max_size)
    if media is None or data is None:
        image = decode_rgb(source, data)
        size = sent_size(*image.size, max_size)
        if size != image.size:
            image = image.resize(size, Image.Resampling.LANCZOS)
        media, data = _encode(image, "jpeg" if format == "jpeg" else "png")
    if len(data) > _MAX_BYTES:
        raise ImageError(
            f"image {name_of(source)} takes {len(data) / 2**20:.0f} MB; the limit for one image is "
            "20 MB: set `max_image_size` (2048 loses nothing with OpenAI) or `image_format` (jpeg)"
        )
    return f"data:{media};base64,{base64.b64encode(data).decode('ascii')}"


class EncodedImages:
    """Data URLs by index, encoded in a thread on first use and shared by all requests.

    The latest 512 MB stay in memory. Requests are sorted by image, so even with more data every
    image is encoded once per run.
    """

    def __init__(
        self, sources: Sequence[ImageSource], format: ImageFormat, max_size: int | None
    ) -> None:
        self._sources, self._format, self._max_size = sources, format, max_size
        self._urls: OrderedDict[int, asyncio.Future[str]] = OrderedDict()
        self._bytes = 0
        self.encoded = 0  # how many times an image was encoded

    async def get(self, index: int) -> str:
        if index not in self._urls:
            self.encoded += 1
            self._urls[index] = asyncio.ensure_future(
                asyncio.to_thread(data_url, self._sources[index], self._format, self._max_size)
            )
            self._urls[index].add_done_callback(self._add_bytes)
        # Shielded: a request that is cancelled must not cancel the encoding for the others.
        return await asyncio.shield(self._urls[index])

    def _add_bytes(self, future: "asyncio.Future[str]") -> None:
        if not future.cancelled() and future.exception() is None:
            self._bytes += len(future.result())
            self._evict()

    def _evict(self) -> None:
        while self._bytes > _CACHED_BYTES and len(self._urls) > 1:
            oldest = self._urls[next(iter(self._urls))]
            if not oldest.done() or oldest.exception() is not None:
                return
            self._urls.popitem(last=False)
            self._bytes -= len(oldest.result())


def _facts(source: ImageSource) -> ImageFacts:
    data = encoded_bytes(source)
    if data is not None:
        try:
            with Image.open(io.BytesIO(data)) as image:
                if _orientation(image) == 1 or applies_exif(source):
                    return ImageFacts(hashlib.sha256(data).hexdigest(), *_upright_size(image))
                # sent as stored, so not the same picture as the same bytes turned upright
                return ImageFacts(hashlib.sha256(b"as stored" + data).hexdigest(), *image.size)
        except Exception:
            decode_rgb(source, data)  # its error says which image is bad, and why
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
    except Exception:  # the picture may be good although its EXIF block is damaged
        return 1


def _unchanged(data: bytes, max_size: int | None) -> str | None:
    """The media type if these bytes can be sent unchanged, else None."""
    with Image.open(io.BytesIO(data)) as image:
        fits = sent_size(*image.size, max_size) == image.size
        still = getattr(image, "n_frames", 1) == 1
        upright = _orientation(image) == 1
        return _SENT_UNCHANGED.get(image.format or "") if fits and still and upright else None


def _encode(image: Image.Image, format: ImageFormat) -> tuple[str, bytes]:
    buffer = io.BytesIO()
    if format == "jpeg":
        image.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    else:
        image.save(buffer, "PNG")
    return f"image/{format}", buffer.getvalue()
