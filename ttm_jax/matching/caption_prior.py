"""The captions' prior: what a caption scores with images that it has nothing to do with.

Where a group has fewer images than captions, a caption that scores high with every image is chosen
too often. Removing the prior subtracts from each score the mean score of its caption with the
images of all other groups ("subtract"), and can divide by their standard deviation
("standardise"). Where every caption of a group is used, subtracting changes no matching.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int32

from ttm_jax.config import Prior
from ttm_jax.errors import InputError


@dataclass(frozen=True, eq=False)
class CaptionTotals:
    """Of each caption of a pool: its scores with all images of the pool, summed up."""

    images: int
    sums: Float64[np.ndarray, " text"]
    squares: Float64[np.ndarray, " text"]


def remove_prior(
    scores: Float[np.ndarray, "group image text"],
    image_index: Int32[np.ndarray, "group image"],
    text_index: Int32[np.ndarray, "group text"],
    totals: CaptionTotals,
    prior: Prior,
) -> Float[np.ndarray, "group image text"]:
    """The scores of groups without their captions' prior.

    Raises:
        InputError: A group has too few other images: one to subtract, two to standardise.
    """
    if prior == "none":
        return scores
    first = _first_occurrences(image_index)
    others = totals.images - first.sum(axis=1)
    least = 1 if prior == "subtract" else 2
    if others.min() < least:
        raise InputError(
            f"removing the captions' prior needs {least} or more images outside each group; there "
            f"are {int(others.min())}"
        )
    exact = scores.astype(np.float64)
    own = np.where(first[:, :, None], exact, 0.0)
    count = others[:, None].astype(np.float64)
    mean = (totals.sums[text_index] - own.sum(axis=1)) / count
    result = exact - mean[:, None, :]
    if prior == "standardise":
        square = (totals.squares[text_index] - (own * own).sum(axis=1)) / count
        spread = np.sqrt(np.maximum(square - mean * mean, 0.0))
        result /= np.where(spread > 0, spread, 1.0)[:, None, :]
    return result.astype(scores.dtype)


def subtract_decoys(
    scores: Float[np.ndarray, "group image text"],
    decoys: Float[np.ndarray, "group draw image text"],
) -> Float64[np.ndarray, "group image text"]:
    """The same from scores that are given: `decoys` are each group's captions with other images."""
    mean = decoys.astype(np.float64).mean(axis=(1, 2))
    return scores.astype(np.float64) - mean[:, None, :]


def subtract_from_matrix(
    scores: Float[np.ndarray, "image text"],
) -> Float64[np.ndarray, "image text"]:
    """The same for all images and captions without groups; needs two images."""
    exact = scores.astype(np.float64)
    return exact - (exact.sum(axis=0) - exact) / (len(exact) - 1)


def _first_occurrences(index: Int32[np.ndarray, "group image"]) -> np.ndarray:
    """False where an image was listed before in the same group."""
    same = index[:, :, None] == index[:, None, :]
    return ~np.tril(same, k=-1).any(axis=2)
