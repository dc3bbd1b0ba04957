"""The two ways to resize a picture, and the two kinds of interpolation."""

from typing import Literal

import numpy as np
from jaxtyping import Float32, Integer, UInt8
from PIL import Image

Kind = Literal["squash", "shorter_side+center_crop", "shorter_side+rounded_crop"]
Mode = Literal["pil", "big_vision"]


def resized_size(width: int, height: int, kind: Kind, size: int) -> tuple[int, int]:
    """Width and height after resizing, before any crop. The longer side is rounded down."""
    if kind == "squash":
        return size, size
    if width <= height:
        return size, int(size * height / width)
    return int(size * width / height), size


def resize(
    image: Image.Image, kind: Kind, size: int, resample: Image.Resampling, mode: Mode
) -> UInt8[np.ndarray, "_ _ 3"]:
    """Resize an RGB image, and crop nothing."""
    width, height = resized_size(*image.size, kind, size)
    if mode == "pil":
        return np.asarray(image.resize((width, height), resample))
    return resize_bilinear(np.asarray(image), width, height)


def centre(
    pixels: UInt8[np.ndarray, "h w 3"], size: int, kind: Kind = "shorter_side+center_crop"
) -> UInt8[np.ndarray, "{size} {size} 3"]:
    """The square in the middle.

    Of an odd number of rows to cut, transformers cuts the larger half below. torchvision, which
    OpenCLIP uses, rounds the half to the nearest even number: 3 rows are cut as 2 and 1.
    """
    cut = [side - size for side in pixels.shape[:2]]
    rounded = kind == "shorter_side+rounded_crop"
    top, left = (round(rows / 2) if rounded else rows // 2 for rows in cut)
    return pixels[top : top + size, left : left + size]


def resize_bilinear(
    pixels: UInt8[np.ndarray, "h w 3"], width: int, height: int
) -> UInt8[np.ndarray, "{height} {width} 3"]:
    """Bilinear with half-pixel centres and no antialias, as big_vision's `resize` does it.

    big_vision calls `tf.image.resize` and casts the float32 result back to uint8, which cuts the
    fraction off. The order of operations follows TensorFlow's kernel, so that the float32 values
    that are cut are the same.
    """
    y0, y1, y_weight = _neighbours(pixels.shape[0], height)
    x0, x1, x_weight = _neighbours(pixels.shape[1], width)
    upper = _mix_columns(pixels[y0], x0, x1, x_weight)
    lower = _mix_columns(pixels[y1], x0, x1, x_weight)
    mixed = upper + (lower - upper) * y_weight[:, None, None]
    return np.clip(mixed, 0, 255).astype(np.uint8)


def _neighbours(
    before: int, after: int
) -> tuple[
    Integer[np.ndarray, "{after}"], Integer[np.ndarray, "{after}"], Float32[np.ndarray, "{after}"]
]:
    """For each new sample the two old ones around it, and the weight of the second."""
    scale = np.float32(before) / np.float32(after)
    place = (np.arange(after, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    floor = np.floor(place)
    first = np.maximum(floor.astype(np.int64), 0)
    second = np.minimum(np.ceil(place).astype(np.int64), before - 1)
    return first, second, place - floor


def _mix_columns(
    rows: UInt8[np.ndarray, "h w 3"],
    first: Integer[np.ndarray, " n"],
    second: Integer[np.ndarray, " n"],
    weight: Float32[np.ndarray, " n"],
) -> Float32[np.ndarray, "h n 3"]:
    left, right = rows[:, first].astype(np.float32), rows[:, second].astype(np.float32)
    return left + (right - left) * weight[None, :, None]
