"""Images that are missing or cannot be decoded, always named together with their group."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.files import file_problem
from ttm_jax.inputs.image_decode import (
    ImageError,
    ImageSource,
    NamedBytes,
    decode_rgb,
    encoded_bytes,
    key_of,
    name_of,
)

NAMED_AT_MOST = 3  # in an error message; a report lists all
_THREADS = 8
OnImage = Callable[[int, int], object]


@dataclass(frozen=True)
class BrokenImage:
    """An image that cannot be used, and the first group that needs it."""

    group: str
    image: str
    reason: str

    def __str__(self) -> str:
        return f"group {self.group!r}: {self.image} {self.reason}"


def find_broken(
    groups: Sequence[Group], decode: bool = False, on_image: OnImage = lambda done, total: None
) -> list[BrokenImage]:
    """One entry for every group and unusable image in it.

    Without `decode` only what is missing, empty or not a file is found, which is quick; with it
    every image is decoded. `on_image` is called with how many of how many images were examined.
    """
    images = {key_of(image): image for group in groups for image in group.images}

    def examine(image: ImageSource) -> str | None:
        return _absence(image) or (_decode_error(image) if decode else None)

    reasons = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for key, reason in zip(images, pool.map(examine, images.values()), strict=True):
            reasons[key] = reason
            on_image(len(reasons), len(images))
    return [
        BrokenImage(group.id, name_of(image), reason)
        for group in groups
        for image in group.images
        if (reason := reasons[key_of(image)]) is not None
    ]


def describe(broken: Sequence[BrokenImage]) -> str:
    """The first few in one line."""
    named = "; ".join(str(image) for image in broken[:NAMED_AT_MOST])
    more = len(broken) - NAMED_AT_MOST
    return f"{named}; and {more} more" if more > 0 else named


def name_group(dataset: GroupedDataset, error: ImageError) -> InputError:
    """An error of `ImageProcessor.batch(dataset.images)`, with the groups that need the picture.

    Decoding happens long after loading, when only the position among the images is known.
    """
    if error.position is None:
        return error
    ids = [
        identity
        for block in dataset.blocks
        for identity, row in zip(block.ids, block.image_index, strict=True)
        if error.position in row
    ]
    named = ", ".join(repr(identity) for identity in ids[:NAMED_AT_MOST])
    more = ", ..." if len(ids) > NAMED_AT_MOST else ""
    plural = "groups" if len(ids) > 1 else "group"
    return InputError(f"{dataset.name}, {plural} {named}{more}: {error}")


def _absence(image: ImageSource) -> str | None:
    if isinstance(image, NamedBytes):
        return None if image.data else "has no bytes"
    if isinstance(image, str | os.PathLike):
        return file_problem(image)
    return None


def _decode_error(image: ImageSource) -> str | None:
    try:
        decode_rgb(image, encoded_bytes(image))
    except ImageError as error:
        return str(error).removeprefix(f"image {name_of(image)} ")
    return None
