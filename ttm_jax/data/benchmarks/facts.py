"""What a researcher should know of a dataset's images and captions before using it."""

import hashlib
import io
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from PIL import Image

from ttm_jax.data.groups import GroupedDataset
from ttm_jax.inputs.image_decode import (
    ImageError,
    ImageSource,
    applies_exif,
    encoded_bytes,
    orientation_of,
)

_THREADS = 8


@dataclass(frozen=True)
class Facts:
    """Counts over all groups. An image is known by its content, whatever its file is called."""

    images: int
    """Different images."""
    oriented: int
    """Of these, with an EXIF orientation other than 1: stored turned or mirrored."""
    exif: bool
    """Whether that orientation is applied."""
    repeated_images: int
    """Of these, listed more than once, in one group or in several."""
    copied_images: int
    """Of these, stored under more than one name."""
    captions: int
    """Different captions."""
    repeated_captions: int
    """Of these, listed more than once."""

    def lines(self) -> list[str]:
        """For the user, one line per fact."""
        applied = "applied" if self.exif else "ignored"
        return [
            f"{self.oriented} of {self.images} images have an EXIF orientation other than 1 "
            f"({applied} when they are decoded)",
            f"{self.repeated_images} of {self.images} images occur more than once "
            f"({self.copied_images} under several names)",
            f"{self.repeated_captions} of {self.captions} captions occur more than once",
        ]


def find_facts(dataset: GroupedDataset) -> Facts:
    """Read every image file once. Images that cannot be read are left out."""
    if isinstance(dataset.images, np.ndarray):
        raise TypeError("the images are arrays already; facts are about image files")
    with ThreadPoolExecutor(_THREADS) as pool:
        looks = list(pool.map(_look, dataset.images))
    names: Counter[bytes] = Counter(look[0] for look in looks if look is not None)
    listed: Counter[bytes] = Counter()
    for block in dataset.blocks:
        found = (looks[image] for image in block.image_index.reshape(-1))
        listed.update(look[0] for look in found if look is not None)
    oriented = {content for content, orientation in filter(None, looks) if orientation != 1}
    captions: Counter[int] = Counter()
    for block in dataset.blocks:
        captions.update(block.text_index.reshape(-1).tolist())
    return Facts(
        images=len(names),
        oriented=len(oriented),
        exif=all(applies_exif(image) for image in dataset.images),
        repeated_images=sum(count > 1 for count in listed.values()),
        copied_images=sum(count > 1 for count in names.values()),
        captions=len(captions),
        repeated_captions=sum(count > 1 for count in captions.values()),
    )


def _look(image: ImageSource) -> tuple[bytes, int] | None:
    """A hash of the content and the orientation; None for what is no readable image."""
    try:
        data = encoded_bytes(image)
    except ImageError:
        return None
    if data is None:  # pixels in memory
        return hashlib.sha256(np.asarray(image).tobytes()).digest(), 1
    try:
        with Image.open(io.BytesIO(data)) as opened:
            orientation = orientation_of(opened)
    except Exception:  # Pillow's readers raise many kinds of exception on broken files
        return None
    return hashlib.sha256(data).digest(), orientation
