"""ImageCoDe (Krojer et al. 2022): ten similar images, and a description of one of them.

Published as https://github.com/McGill-NLP/imagecode (MIT) and
https://huggingface.co/datasets/BennoKrojer/ImageCoDe (AFL-3.0): `valid_data.json`, an object of
image sets, each an object of descriptions by the position of their image. A set is a folder of ten
files img<number>.jpg; positions count through them in the order of the numbers, as in the authors'
`baselines/clip/zero_shot.py`. The labels of the test split are not published.
"""

import re
from pathlib import Path

from ttm_jax.data.benchmarks.json_entries import Entry, read_entries
from ttm_jax.data.download.addresses import safe_path
from ttm_jax.data.groups import UNKNOWN, Group
from ttm_jax.data.not_prepared import NotPrepared

ANNOTATION = "valid_data.json"
IMAGES = "image-sets"
_NAME = re.compile(r"img([0-9]{1,9})\.jpg")
_SIZE = 10


def read_groups(folder: Path) -> list[Group]:
    """10x1, one group per description; tagged `video` or `open-images`."""
    groups = []
    for entry in read_entries(folder / ANNOTATION, dict):
        if safe_path(entry.key) is None or not isinstance(entry.values, dict):
            raise entry.error("expected the name of an image set and an object of descriptions")
        images = _images(folder / IMAGES / entry.key)
        for position in entry.values:
            if position not in map(str, range(_SIZE)):
                raise entry.error(f"describes image {position!r}; expected one of 0 to {_SIZE - 1}")
            groups.append(_group(entry, int(position), images))
    return groups


def _group(entry: Entry, described: int, images: tuple[Path, ...]) -> Group:
    return Group(
        id=f"{entry.key}/{described}",
        images=images,
        captions=(entry.text(str(described)).strip(),),
        truth=tuple(0 if i == described else UNKNOWN for i in range(_SIZE)),
        tags=("open-images" if entry.key.startswith("open-images") else "video",),
    )


def _images(folder: Path) -> tuple[Path, ...]:
    found = {path: _NAME.fullmatch(path.name) for path in folder.glob("img*.jpg")}
    numbers = {path: int(name[1]) for path, name in found.items() if name is not None}
    if len(numbers) != _SIZE:
        raise NotPrepared(f"{folder} has {len(numbers)} images img<number>.jpg; expected {_SIZE}")
    return tuple(sorted(numbers, key=lambda path: numbers[path]))
