"""WhatsUp (Kamath et al. 2023): two objects, photographed in four relations to each other.

Published at https://github.com/amitakamath/whatsup_vlms (the files are on Google Drive). Part A
(`controlled_images`) has left, right, on and under; part B (`controlled_clevr`) has left, right,
front and behind. A JSON list gives `image_path`, such as
`data/controlled_images/beer-bottle_on_armchair.jpeg`, and four `caption_options`, the first of
which is right. The relation and the two objects are read from the file's name.

Released images of a pillow left and right of a chair carry each other's name
(https://github.com/amitakamath/whatsup_vlms/issues/4). The code of the Test-Time Matching paper
exchanges them (https://github.com/yinglunz/test-time-matching, dataset.py); so do we by default.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from ttm_jax.data.groups import Group
from ttm_jax.data.not_prepared import read_annotation
from ttm_jax.errors import InputError

Part = Literal["a", "b"]
Relation = Literal["left", "right", "on", "under", "front", "behind"]

ANNOTATIONS = {"a": "controlled_images_dataset.json", "b": "controlled_clevr_dataset.json"}
IMAGES = {"a": "controlled_images", "b": "controlled_clevr"}
_OBJECT = r"[^\x00-\x1f\x7f/\\]{1,100}"  # no control character, and nothing that makes it a path
_NAME = re.compile(
    rf"(?P<first>{_OBJECT})_(?P<relation>left_of|right_of|on|under|in-front_of|behind)_"
    rf"(?P<second>{_OBJECT})\.\w{{1,10}}"
)
_RELATIONS: dict[str, Relation] = {
    "left_of": "left",
    "right_of": "right",
    "on": "on",
    "under": "under",
    "in-front_of": "front",
    "behind": "behind",
}
_OF_PART = {"a": {"left", "right", "on", "under"}, "b": {"left", "right", "front", "behind"}}
_EXCHANGED = ("pillow_left_of_chair.jpeg", "pillow_right_of_chair.jpeg")


@dataclass(frozen=True)
class _Item:
    """One entry of the list: `image` is the picture, `name` what the release calls it."""

    name: str
    objects: str
    relation: Relation
    captions: tuple[str, ...]
    image: Path


def annotation_files(folder: Path, part: Part) -> list[Path]:
    return [folder / ANNOTATIONS[part]]


def read_single_images(folder: Path, part: Part, corrected: bool = True) -> list[Group]:
    """1x4: every image with its four captions, the first of which is right; tagged by relation."""
    return [
        Group(
            id=PurePosixPath(item.name).stem,
            images=(item.image,),
            captions=item.captions,
            truth=(0,),
            tags=(item.relation,),
        )
        for item in _read_items(folder, part, corrected)
    ]


def read_pairs(
    folder: Path, part: Part, relations: tuple[Relation, Relation], corrected: bool = True
) -> list[Group]:
    """2x2: the same two objects in two opposite relations, each image with its right caption."""
    found: dict[str, dict[str, _Item]] = {}
    for item in _read_items(folder, part, corrected):
        if item.relation in relations:
            found.setdefault(item.objects, {})[item.relation] = item
    groups = []
    for objects, pair in found.items():
        if len(pair) < 2:
            (present,) = pair.values()
            (absent,) = set(relations) - {present.relation}
            raise InputError(
                f"{folder / ANNOTATIONS[part]}: {present.name} has no partner with the relation "
                f"{absent!r}; the variant needs both for the same two objects"
            )
        first, second = (pair[relation] for relation in relations)
        groups.append(
            Group(
                id=objects,
                images=(first.image, second.image),
                captions=(first.captions[0], second.captions[0]),
                truth=(0, 1),
                tags=("-".join(relations),),
            )
        )
    return groups


def is_correctable(part: Part, relations: tuple[Relation, ...]) -> bool:
    """Whether the images that the release confuses are in this variant."""
    return part == "a" and (not relations or "left" in relations)


def _read_items(folder: Path, part: Part, corrected: bool) -> list[_Item]:
    (path,) = annotation_files(folder, part)
    entries = read_annotation(path)
    if not isinstance(entries, list):
        raise InputError(f"{path} holds a JSON {type(entries).__name__}; expected a list")
    items = [_item(path, folder / IMAGES[part], part, i, entry) for i, entry in enumerate(entries)]
    for name, count in Counter(item.name for item in items).items():
        if count > 1:
            raise InputError(f"{path} lists {name} {count} times")
    if part == "a" and corrected:
        items = _exchange(items)
    return items


def _item(path: Path, images: Path, part: Part, position: int, entry: Any) -> _Item:
    where = f"{path} entry {position}"
    if not isinstance(entry, dict) or not isinstance(entry.get("image_path"), str):
        raise InputError(f"{where}: no image_path; expected one and four caption_options")
    name = PurePosixPath(entry["image_path"]).name
    captions = entry.get("caption_options")
    if not (
        isinstance(captions, list)
        and len(captions) == 4
        and all(isinstance(caption, str) and caption.strip() for caption in captions)
    ):
        raise InputError(f"{where} ({name}): caption_options should be four texts")
    parts = _NAME.fullmatch(name)
    if parts is None or _RELATIONS[parts["relation"]] not in _OF_PART[part]:
        raise InputError(
            f"{where}: {name!r} does not say the relation; expected a name such as "
            f"mug_left_of_plate.jpeg with {', '.join(sorted(_OF_PART[part]))}"
        )
    return _Item(
        name=name,
        objects=f"{parts['first']}_{parts['second']}",
        relation=_RELATIONS[parts["relation"]],
        captions=tuple(captions),
        image=images / name,
    )


def _exchange(items: list[_Item]) -> list[_Item]:
    """Give the two confused images back to their captions."""
    image = {item.name: item.image for item in items}
    left, right = _EXCHANGED
    if left not in image or right not in image:
        return items
    partner = {left: image[right], right: image[left]}
    return [replace(item, image=partner.get(item.name, item.image)) for item in items]
