"""Validation of scores and ground truth, with error messages that locate the problem.

The public functions of `matching` and `metrics` deliberately accept any array (`ArrayLike`, not a
jaxtyping shape): a wrong rank is a user error and must raise an `InputError` that says what to do.
After these checks every array has the shape given by its annotation.
"""

import numpy as np
from jaxtyping import Float, Int32
from numpy.typing import ArrayLike

from ttm_jax.errors import InputError

UNMATCHED = -1  # in a matching or a truth: the image has no caption (more images than captions)
# Larger magnitudes are rejected, because the sum of a matching could overflow.
LARGEST_SCORE = 1e300

_AXES = {3: ("group", "image", "caption"), 2: ("image", "caption")}


def as_group_scores(scores: ArrayLike) -> Float[np.ndarray, "group image text"]:
    """Validate scores of same-shape groups, `[group, image, text]`: float32 or float64, finite."""
    return _checked(
        scores,
        rank=3,
        hint="expected 3 axes [group, image, text]; a single matrix of all images and captions "
        "is a global matching",
    )


def as_score_matrix(scores: ArrayLike) -> Float[np.ndarray, "image text"]:
    """Validate the scores of all images against all captions, `[image, text]`, without groups."""
    return _checked(
        scores,
        rank=2,
        hint="expected 2 axes [image, text]; scores of groups have 3 and are matched by group",
    )


def _checked(scores: ArrayLike, rank: int, hint: str) -> np.ndarray:
    try:
        array = np.asarray(scores)
    except ValueError as error:
        raise InputError("scores have rows of different lengths; give a full array") from error
    if array.ndim != rank:
        raise InputError(f"scores have shape {_size(array.shape)}: {hint}")
    if 0 in array.shape:
        empty = _AXES[rank][array.shape.index(0)]
        raise InputError(
            f"scores have shape {_size(array.shape)}: there is no {empty}; give at least one"
        )
    array = _as_float(array)
    largest = min(LARGEST_SCORE, float(np.finfo(array.dtype).max))
    if not (-largest <= array.min() and array.max() <= largest):  # also false for NaN
        place = np.unravel_index(int(np.argmin(np.abs(array) <= largest)), array.shape)
        where = ", ".join(f"{axis} {i}" for axis, i in zip(_AXES[rank], place, strict=True))
        raise InputError(
            f"the score of {where} is {array[place]}: every score must be finite"
            f"{' and at most 1e300' if np.isfinite(array[place]) else ''}; "
            "correct it, or leave the group out"
        )
    return array


def _as_float(array: np.ndarray) -> np.ndarray:
    """Keep float32 and float64; convert bfloat16, float16 and integers to float64, exactly."""
    if array.dtype in (np.float32, np.float64):
        return array
    try:
        if array.dtype.kind not in "fiuV":  # V: JAX's extension dtypes, such as bfloat16
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"scores are of type {array.dtype}; expected real numbers (float32 or float64)"
        ) from error


def diagonal(scores: ArrayLike) -> Int32[np.ndarray, "group image"]:
    """The benchmarks' ground truth: image i has caption i; images beyond the captions have none."""
    shape = np.shape(scores)
    if len(shape) != 3:
        raise InputError(f"scores have shape {_size(shape)}: expected 3 axes [group, image, text]")
    groups, images, texts = shape
    row = np.arange(images, dtype=np.int32)
    return np.tile(np.where(row < texts, row, np.int32(UNMATCHED)), (groups, 1))


def as_truth(truth: ArrayLike, shape: tuple[int, int, int]) -> Int32[np.ndarray, "group image"]:
    """Validate the true caption of every image: one-to-one, with every pair the shape allows.

    With more images than captions, images without a caption have truth -1.
    """
    groups, images, texts = shape
    array = np.asarray(truth)
    if array.shape != (groups, images):
        raise InputError(
            f"truth has shape {_size(array.shape)}; expected {_size((groups, images))}: "
            "for every group the caption index of each image"
        )
    if array.dtype.kind not in "iu":
        raise InputError(f"truth is of type {array.dtype}; expected integers (caption indices)")
    if images <= texts and all((array[:, i] == i).all() for i in range(images)):
        return array.astype(np.int32)  # the usual order needs no further checks
    outside = (array < UNMATCHED) | (array >= texts)
    if outside.any():
        group, image = (int(i) for i in np.argwhere(outside)[0])
        raise InputError(
            f"truth of group {group}, image {image} is {array[group, image]}; the captions of a "
            f"group are numbered 0 to {texts - 1}"
        )
    ordered = np.sort(array, axis=1)
    repeated = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != UNMATCHED)).any(axis=1)
    if repeated.any():
        group = int(np.argmax(repeated))
        raise InputError(f"truth of group {group}, {array[group].tolist()}, uses a caption twice")
    pairs = (array != UNMATCHED).sum(axis=1)
    if (pairs != min(images, texts)).any():
        group = int(np.argmax(pairs != min(images, texts)))
        raise InputError(
            f"truth of group {group}, {array[group].tolist()}, has {pairs[group]} of "
            f"{min(images, texts)} pairs; give every pair, or no truth at all"
        )
    return array.astype(np.int32)


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(str(n) for n in shape) if shape else "() (a single number)"
