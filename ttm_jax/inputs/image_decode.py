"""From a picture, however it is stored, to an 8-bit RGB image; errors name the picture."""

import io
import os
import threading
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from ttm_jax import limits
from ttm_jax.errors import InputError
from ttm_jax.files import read_within

Alpha = Literal["drop", "white"]


@dataclass(frozen=True)
class NamedBytes:
    """An encoded image that lies inside another file; `name` says where, for error messages."""

    name: str
    data: bytes = field(repr=False)
    exif: bool = True
    """Whether its EXIF orientation is applied."""


@dataclass(frozen=True)
class ImageFile(os.PathLike):
    """The path of an image, whether its EXIF orientation is applied, and the part that is used.

    A plain path means that it is, and all of it. Everything that takes a path takes this as well.
    """

    path: Path
    exif: bool = True
    box: tuple[int, int, int, int] | None = None
    """Left, top, right and bottom in the stored file, where only a part is the image."""

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


ImageSource = str | os.PathLike | Image.Image | np.ndarray | NamedBytes


class ImageError(InputError):
    """An image that cannot be used; `position` is its place in the batch it came in."""

    position: int | None = None


# What undoes each EXIF orientation (tag 0x0112). 1 is upright.
_ORIENTATION_TAG = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_open_lock = threading.Lock()


def name_of(source: ImageSource) -> str:
    """How an error message calls this image."""
    if isinstance(source, NamedBytes):
        return source.name
    if isinstance(source, Image.Image):
        return getattr(source, "filename", "") or f"PIL image of size {source.size}"
    if isinstance(source, np.ndarray):
        return f"array of shape {source.shape} and dtype {source.dtype}"
    return os.fspath(source)


def key_of(source: ImageSource) -> Hashable:
    """What makes two sources the same picture without opening them."""
    if isinstance(source, NamedBytes):
        return source.data, source.exif
    if isinstance(source, (Image.Image, np.ndarray)):
        return id(source)
    box = source.box if isinstance(source, ImageFile) else None
    return (os.fspath(source), applies_exif(source), *([] if box is None else box))


def applies_exif(source: ImageSource) -> bool:
    """Whether the EXIF orientation of this image is applied when it is decoded."""
    return source.exif if isinstance(source, (NamedBytes, ImageFile)) else True


def encoded_bytes(source: ImageSource) -> bytes | None:
    """The encoded file; `None` for an image that is already in memory as pixels.

    Of a part of a file: that part, as a PNG.
    """
    if isinstance(source, (Image.Image, np.ndarray)):
        return None
    name = name_of(source)
    try:
        data = source.data if isinstance(source, NamedBytes) else read_within(source, _largest())
    except FileNotFoundError:
        raise ImageError(f"image {name} does not exist; check the path") from None
    except IsADirectoryError:
        raise ImageError(f"image {name} is a folder; expected an image file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise ImageError(f"image {name} cannot be read: {_reason(error)}") from error
    if not data:
        raise ImageError(f"image {name} is empty (0 bytes); fetch it again")
    if data.startswith(b"version https://git-lfs"):
        raise ImageError(f"image {name} is a Git LFS pointer, not the image; run `git lfs pull`")
    box = source.box if isinstance(source, ImageFile) else None
    return data if box is None else _part(source, data, box)


def decode_rgb(
    source: ImageSource, data: bytes | None, exif: bool = True, alpha: Alpha = "drop"
) -> Image.Image:
    """The picture as mode RGB; `data` is `encoded_bytes(source)`.

    Its EXIF orientation is applied if both `exif` and the source say so.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source)
    name = name_of(source)
    # Pillow's readers raise many kinds of exception on broken files (struct.error, SyntaxError,
    # EOFError, zlib.error, ...), and all of them mean the same: this file is bad.
    try:
        image = source if isinstance(source, Image.Image) else _open(data or b"")
        image.load()
        rgb = _to_rgb(image, alpha)
        turned = exif and applies_exif(source)
        undo = _UPRIGHT.get(orientation_of(image)) if turned else None
        return rgb if undo is None else rgb.transpose(undo)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(
            f"image {name} is too large: {_reason(error)}; shrink it, or raise "
            "PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        ) from error
    except Image.UnidentifiedImageError as error:
        raise ImageError(f"image {name} is not an image that Pillow can read") from error
    except Exception as error:
        raise ImageError(f"image {name} cannot be decoded: {_reason(error)}") from error


def _part(source: ImageSource, data: bytes, box: tuple[int, int, int, int]) -> bytes:
    """A part of a stored picture, without its EXIF data: whoever measured it saw it as stored."""
    buffer = io.BytesIO()
    decode_rgb(ImageFile(Path(os.fspath(source)), exif=False), data).crop(box).save(buffer, "PNG")  # type: ignore[arg-type]
    return buffer.getvalue()


def _open(data: bytes) -> Image.Image:
    """Open lazily; a suspiciously large image is an error where Pillow would only warn.

    Warning filters are global to the process, so threads take turns. Only the header is read here.
    """
    with _open_lock, warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        return Image.open(io.BytesIO(data))


def _from_array(array: np.ndarray) -> Image.Image:
    is_image = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
    if array.dtype != np.uint8 or not is_image or 0 in array.shape:
        raise ImageError(
            f"image given as {name_of(array)}; expected uint8 of shape [height, width, 3] or "
            "[height, width]"
        )
    return Image.fromarray(array).convert("RGB")


def orientation_of(image: Image.Image) -> int:
    """The EXIF orientation, 1 (upright) where none is given.

    A damaged EXIF block does not spoil a good picture. Pillow turns TIFF files itself on loading.
    """
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:
        return 1


def _to_rgb(image: Image.Image, alpha: Alpha) -> Image.Image:
    """Mode RGB; deep greyscale is scaled to 8 bits, where Pillow's own conversion would clip it."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_to_8_bit(image)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    rgba = image.convert("RGBA")  # also from a palette: its colours, then its transparency
    if alpha == "white":
        rgba = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    return rgba.convert("RGB")


def _to_8_bit(image: Image.Image) -> np.ndarray:
    """Greyscale of 16-bit, 32-bit or float samples as uint8.

    The range of 16-bit samples is 0..65535. The modes "I" and "F" do not tell theirs: integers are
    16-bit when they come from a PNG or go beyond 255; floats are 0..1, or else 0..255.
    """
    values = np.asarray(image)
    low, high = values.min(), values.max()
    if image.mode == "F":
        if not (np.isfinite(values).all() and low >= 0 and high <= 255):
            raise ValueError(f"float samples from {low:g} to {high:g}; expected 0..1 or 0..255")
        return np.rint(values * (255.0 if high <= 1 else 1.0)).astype(np.uint8)
    if low < 0 or high > 65535:
        raise ValueError(f"samples from {low} to {high}; expected 16-bit or 8-bit ones")
    if image.mode == "I" and image.format != "PNG" and high <= 255:
        return values.astype(np.uint8)
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 = 255 * 257


def _largest() -> int:
    return limits.allowed("IMAGE_BYTES")


def _reason(error: BaseException) -> str:
    """The first line of an exception, without the path that our message names anyway."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [""])[0] or type(error).__name__
