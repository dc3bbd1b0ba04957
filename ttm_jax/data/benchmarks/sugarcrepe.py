"""SugarCrepe (Hsieh et al. 2023): one image, its caption, and a caption changed in one place.

Published as https://github.com/RAIVNLab/sugar-crepe (MIT): `data/<subset>.json`, an object whose
values have filename, caption and negative_caption; its keys count from "0" with gaps. The images
are those of COCO val2017 (https://cocodataset.org), and several groups may share one.
"""

import re
from pathlib import Path
from typing import Any

from ttm_jax.data.groups import Group
from ttm_jax.data.not_prepared import read_annotation
from ttm_jax.errors import InputError

IMAGES = "val2017"
_FILENAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,99}")  # 000000012345.jpg
_KEYS = ("filename", "caption", "negative_caption")


def annotation_files(folder: Path, subset: str) -> list[Path]:
    return [folder / f"{subset}.json"]


def read_groups(folder: Path, subset: str) -> list[Group]:
    """The first caption is the right one; the tag is the subset."""
    (path,) = annotation_files(folder, subset)
    entries = read_annotation(path)
    if not isinstance(entries, dict):
        raise InputError(f"{path} holds a JSON {type(entries).__name__}; expected an object")
    return [_group(path, folder / IMAGES, subset, key, entry) for key, entry in entries.items()]


def _group(path: Path, images: Path, subset: str, key: str, entry: Any) -> Group:
    if not isinstance(entry, dict) or any(not _is_text(entry.get(name)) for name in _KEYS):
        raise InputError(f"{path}: entry {key!r} should have the texts {', '.join(_KEYS)}")
    filename = entry["filename"]
    if not _FILENAME.fullmatch(filename):
        raise InputError(f"{path}: entry {key!r}: {filename!r} is not the name of a COCO image")
    return Group(
        id=key,
        images=(images / filename,),
        captions=(entry["caption"], entry["negative_caption"]),
        truth=(0,),
        tags=(subset,),
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
