"""Your own data: a folder with `groups.jsonl`, or with `images.jsonl` and `captions.jsonl`.

docs/own_data.md describes the format. Every error names the file and the line, before anything
expensive starts.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ttm_jax.data.folder_writer import CAPTIONS, GROUPS, IMAGES, write_folder
from ttm_jax.data.groups import UNKNOWN, Group, GroupedDataset, check_group
from ttm_jax.data.jsonl import Line, read_lines
from ttm_jax.errors import InputError
from ttm_jax.files import file_problem
from ttm_jax.plain_text import one_line

__all__ = ["read_folder", "write_folder"]

NAMED_AT_MOST = 3  # of the missing image files


def read_folder(path: str | Path) -> GroupedDataset:
    """Read a folder of your own data; docs/own_data.md describes the format.

    Args:
        path: A folder with `groups.jsonl`, or with `images.jsonl` and `captions.jsonl`. Image paths
            in these files are relative to the folder. Absolute paths and `..` are allowed: the list
            is your own, and files are only read.

    Returns:
        The groups; a single group of everything if the data has no groups.

    Raises:
        InputError: Something is wrong; the message names the file and the line.

    Examples:
        >>> from ttm_jax import read_folder, write_folder
        >>> from ttm_jax.data import world
        >>> folder = write_folder(world.make("color_swap", groups=3), "my_data")
        >>> dataset = read_folder(folder)
        >>> len(dataset), dataset.has_truth
        (3, True)
    """
    folder = Path(path)
    _check_folder(folder)
    grouped, listed = (folder / GROUPS).exists(), (folder / IMAGES).exists()
    if grouped and listed:
        raise InputError(
            f"{folder} has {GROUPS} and {IMAGES}; keep one: groups, or no groups at all"
        )
    if not grouped and not listed:
        raise InputError(f"{folder} has neither {GROUPS} nor {IMAGES} with {CAPTIONS}")
    groups = _read_groups(folder) if grouped else [_read_ungrouped(folder)]
    _check_files(folder, groups)
    return GroupedDataset.from_groups(groups, name=name_of_folder(folder))


def _check_folder(folder: Path) -> None:
    try:
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder; expected one with {GROUPS}")
        os.stat(folder / GROUPS)
    except FileNotFoundError:
        return
    except OSError as error:  # no permission, or a name that is too long
        raise InputError(f"{folder} cannot be read: {error.strerror}") from None


def name_of_folder(folder: Path) -> str:
    """The folder's name for records and titles: whatever it holds, it can be written as UTF-8."""
    return one_line(folder.resolve().name)


def _read_groups(folder: Path) -> list[Group]:
    groups: list[Group] = []
    line_of: dict[str, Line] = {}
    first_of_shape: dict[tuple[int, int], tuple[Line, Group]] = {}
    for line in read_lines(folder / GROUPS, ("id", "images", "captions"), ("truth", "tags")):
        group = _group(folder, line)
        if group.id in line_of:
            raise line.error(f"id {group.id!r} is already on line {line_of[group.id].number}")
        line_of[group.id] = line
        other_line, other = first_of_shape.setdefault(group.shape, (line, group))
        if (group.truth is None) != (other.truth is None):
            has, lacks = (line, other_line) if other.truth is None else (other_line, line)
            raise lacks.error(
                f"no truth, but line {has.number} of the same shape has one; "
                "give it for all groups of a shape or for none"
            )
        groups.append(group)
    return groups


def _group(folder: Path, line: Line) -> Group:
    identity = line.values["id"]
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
        raise line.error(f"id is {_short(identity)}; expected a text or a whole number")
    if isinstance(identity, str):
        _text(line, "id", identity)
    group = Group(
        id=str(identity),
        images=tuple(_image_path(folder, line, image) for image in _texts(line, "images")),
        captions=_texts(line, "captions"),
        truth=_truth(line, line.values.get("truth")),
        tags=_texts(line, "tags") if line.values.get("tags") is not None else (),
    )
    try:
        check_group(group)
    except InputError as error:
        raise line.error(str(error)) from None
    return group


def _read_ungrouped(folder: Path) -> Group:
    if not (folder / CAPTIONS).exists():
        raise InputError(f"{folder} has {IMAGES} but no {CAPTIONS}; expected both")
    caption_lines = read_lines(folder / CAPTIONS, ("caption",), ("id",))
    captions = tuple(_text(line, "caption", line.values["caption"]) for line in caption_lines)
    position = _positions(caption_lines)
    image_lines = read_lines(folder / IMAGES, ("image",), ("caption",))
    images = tuple(
        _image_path(folder, line, _text(line, "image", line.values["image"]))
        for line in image_lines
    )
    if len(images) > len(captions):
        raise InputError(
            f"{folder / IMAGES}: {len(images)} images for {len(captions)} captions; without groups "
            "every image needs a caption of its own, so list at least as many captions as images"
        )
    known = [line.values.get("caption") is not None for line in image_lines]
    if any(known) and not all(known):
        raise image_lines[known.index(False)].error(
            f"no caption, but line {image_lines[known.index(True)].number} has one; "
            "give the true caption of all images or of none"
        )
    truth = tuple(position(line) for line in image_lines) if all(known) else None
    _check_used_once(image_lines, truth)
    return Group(id=name_of_folder(folder), images=images, captions=captions, truth=truth)


def _positions(caption_lines: list[Line]) -> Callable[[Line], int]:
    """How a line of `images.jsonl` names its caption: by index from 0, or by id."""
    by_id: dict[str, int] = {}
    for i, line in enumerate(caption_lines):
        if "id" not in line.values:
            continue
        name = _text(line, "id", line.values["id"])
        if name in by_id:
            raise line.error(f"id {name!r} is already on line {caption_lines[by_id[name]].number}")
        by_id[name] = i

    def position(line: Line) -> int:
        said = line.values["caption"]
        if isinstance(said, str):
            if said not in by_id:
                raise line.error(f"caption {_short(said)} is no id in {CAPTIONS}")
            return by_id[said]
        if isinstance(said, bool) or not isinstance(said, int):
            raise line.error(f"caption is {_short(said)}; expected an index from 0, or an id")
        if not 0 <= said < len(caption_lines):
            raise line.error(
                f"caption {_short(said)} is outside the {len(caption_lines)} of {CAPTIONS}"
            )
        return said

    return position


def _check_used_once(lines: list[Line], truth: tuple[int, ...] | None) -> None:
    used: dict[int, Line] = {}
    for line, caption in zip(lines, truth or (), strict=False):
        if caption in used:
            raise line.error(
                f"caption {line.values['caption']!r} already belongs to the image on line "
                f"{used[caption].number}; list a caption once for every image that has it"
            )
        used[caption] = line


def _image_path(folder: Path, line: Line, name: str) -> Path:
    if "://" in name:
        raise line.error(f"image {_short(name)} is an address; download it and give its path")
    if "\0" in name:
        raise line.error(f"image {_short(name)} is not a file name")
    return folder / name


def _texts(line: Line, key: str) -> tuple[str, ...]:
    value = line.values[key]
    if not isinstance(value, list):
        raise line.error(f"{key} is {_short(value)}; expected a list of texts")
    return tuple(_text(line, f"{key}[{i}]", item) for i, item in enumerate(value))


def _text(line: Line, what: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise line.error(f"{what} is {_short(value)}; expected a text that is not empty")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise line.error(f"{what} is {_short(value)}, which holds half a character (a surrogate)")
    return value


def _truth(line: Line, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    entries = value if isinstance(value, list) else [True]
    if any(isinstance(t, bool) or not isinstance(t, int | None) for t in entries):
        raise line.error(
            f"truth is {_short(value)}; expected the index of the caption of every image, from 0, "
            "or null for an image that has none"
        )
    if any(t is not None and t < 0 for t in entries):
        raise line.error(f"truth is {_short(value)}; captions count from 0, no caption is null")
    return tuple(UNKNOWN if t is None else t for t in entries)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_files(folder: Path, groups: list[Group]) -> None:
    """All images must be there before a long run starts; one message counts them all."""
    wanted: dict[Path, str] = {}
    for group in groups:
        for image in group.images:
            if isinstance(image, Path):
                wanted.setdefault(image, f" (group {_short(group.id)})")
    _refuse_missing(folder, wanted)


def check_image_files(folder: Path, images: Sequence[Path]) -> None:
    """Refuse images that cannot be read, all in one message."""
    _refuse_missing(folder, dict.fromkeys(images, ""))


def _refuse_missing(folder: Path, wanted: dict[Path, str]) -> None:
    problems = [
        f"{image} {problem}{where}"
        for image, where in wanted.items()
        if (problem := file_problem(image)) is not None
    ]
    if problems:
        more = ", ..." if len(problems) > NAMED_AT_MOST else ""
        raise InputError(
            f"{len(problems)} of {len(wanted)} image files cannot be used: "
            f"{', '.join(problems[:NAMED_AT_MOST])}{more}; paths are relative to {folder}"
        )
