"""Your own data in whatever form you have it: lists, a folder of photographs, a table, Parquet.

docs/own_data.md describes the forms. What is not understood is answered with what was found, what
is needed, and an example.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttm_jax.data.caption_tables import (
    IMAGE_SUFFIXES,
    TABLE_SUFFIXES,
    CaptionRow,
    read_caption_table,
    read_parquet_folder,
)
from ttm_jax.data.folder_reader import check_image_files, name_of_folder, read_folder
from ttm_jax.data.folder_writer import GROUPS, IMAGES
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import ImageSource, NamedBytes

# Lists of captions that are found by themselves beside photographs.
_USUAL = tuple(f"{name}{suffix}" for name in ("captions", "metadata") for suffix in TABLE_SUFFIXES)
# Photographs that Pillow does not open; phones write them.
_NOT_READ = (".heic", ".heif")
_EXAMPLE = "ttm adapt --model MODEL --data photos --captions captions.csv"


@dataclass(frozen=True)
class OwnData:
    dataset: GroupedDataset
    grouped: bool
    """Whether the data has groups; otherwise it is one group of everything."""
    folder: Path
    """What the names of images are relative to."""
    notes: tuple[str, ...] = ()
    """What the user should know about it, one sentence each."""


def read_own_data(
    path: Path,
    captions: Path | None = None,
    *,
    image_column: str | None = None,
    caption_column: str | None = None,
) -> OwnData:
    """Read a folder of lists, a folder of photographs with captions, a table, or Parquet files.

    With an image column, each row is a true pair: it is used to measure the result and for nothing
    else. Without one, captions are matched to the photographs of the folder.
    """
    columns = (image_column, caption_column)
    if path.is_file():
        if captions is not None:
            raise InputError(f"{path} is a table already; leave out --captions")
        return _from_rows(read_caption_table(path, *columns), path, path.parent)
    if not path.is_dir():
        raise InputError(f"{path} does not exist; expected a folder of images, or a table of them")
    data = _read_folder(path, captions, columns)
    note = _not_read(path)
    return replace(data, notes=(*data.notes, note)) if note else data


def _read_folder(
    path: Path, captions: Path | None, columns: tuple[str | None, str | None]
) -> OwnData:
    if (path / GROUPS).exists() or (path / IMAGES).exists():
        if captions is not None:
            raise InputError(f"{path} lists its captions itself; leave out --captions")
        return OwnData(read_folder(path), (path / GROUPS).exists(), path)
    if captions is None:
        captions = next((path / name for name in _USUAL if (path / name).is_file()), None)
    photos = image_files(path)
    if captions is not None:
        rows = read_caption_table(captions, *columns)
        if all(row.image is None for row in rows):
            return _photos_and_captions(path, photos, rows, captions)
        return _from_rows(rows, captions, path, photos)
    beside = [photo.with_suffix(".txt") for photo in photos]
    if photos and all(text.is_file() for text in beside):
        return _from_rows(_beside(photos, beside, path), path, path, photos)
    parquet = _parquet_files(path)
    if parquet:
        return _from_rows(read_parquet_folder(parquet, *columns), path, path)
    raise _not_understood(path, photos)


def image_files(folder: Path) -> list[Path]:
    """The pictures in a folder and below it, by name, photo_10 after photo_9."""
    return _files_with(folder, IMAGE_SUFFIXES)


def _files_with(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in suffixes
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda path: _natural(path.relative_to(folder).as_posix()))


def expand_images(paths: Sequence[Path]) -> list[Path]:
    """Files as they are, folders as the pictures in them."""
    found: list[Path] = []
    for path in paths:
        inside = image_files(path) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path} has no images ({', '.join(IMAGE_SUFFIXES)})")
        found += inside
    return found


def truth_of_images(
    images: Sequence[Path], rows: Sequence[CaptionRow], given: Sequence[Path]
) -> list[int] | None:
    """The row of each image by the table's own image column; None unless each has just one.

    Names in the table are relative to a folder that was given, or to the folder of an image.
    """
    where = [path if path.is_dir() else path.parent for path in given]
    found: dict[Path, int] = {}
    for index, row in enumerate(rows):
        if row.image is None:
            continue  # a caption that belongs to no image
        if not isinstance(row.image, str):
            return None
        for path in dict.fromkeys(folder / row.image for folder in where):
            if found.setdefault(path, index) != index:
                return None
    if not rows or not all(path in found for path in images) or len({*images}) < len(images):
        return None
    return [found[path] for path in images]


def _natural(name: str) -> list[Any]:
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _beside(photos: Sequence[Path], texts: Sequence[Path], folder: Path) -> list[CaptionRow]:
    """dog.jpg and dog.txt: the caption of each photograph in a file of its own."""
    rows = []
    for photo, text in zip(photos, texts, strict=True):
        lines = read_caption_table(text)
        if len(lines) > 1:
            raise InputError(f"{text} has {len(lines)} lines; expected the caption on one")
        rows.append(replace(lines[0], image=str(photo.relative_to(folder))))
    return rows


def _parquet_files(folder: Path) -> list[Path]:
    """Those of the test split if there is one, otherwise all."""
    every = sorted(folder.rglob("*.parquet"))
    test = [path for path in every if path.name.startswith("test") or path.parent.name == "test"]
    return test or every


def _photos_and_captions(
    folder: Path, photos: list[Path], rows: list[CaptionRow], captions: Path
) -> OwnData:
    """Photographs and a plain list of captions: who belongs to whom is for the model to say."""
    if not photos:
        raise InputError(
            f"{folder} has no images ({', '.join(IMAGE_SUFFIXES)}) for the {len(rows)} captions "
            f"of {captions}"
        )
    if len(photos) > len(rows):
        raise InputError(
            f"{folder} has {len(photos)} images and {captions} {len(rows)} captions; matching "
            "gives every image a caption of its own, so there must be at least as many captions "
            "(`ttm score` ranks the same few captions for every image)"
        )
    check_image_files(folder, photos)
    texts = tuple(row.caption for row in rows)
    group = Group(id=name_of_folder(folder), images=tuple(photos), captions=texts)
    dataset = GroupedDataset.from_groups([group], name=name_of_folder(folder))
    return OwnData(dataset, False, folder)


def _from_rows(
    rows: list[CaptionRow], source: Path, folder: Path, photos: Sequence[Path] = ()
) -> OwnData:
    """Rows with images are true pairs; a caption without an image is one that nobody gets."""
    if all(row.image is None for row in rows):
        raise InputError(
            f"{source} has captions and no column of images; give the folder of the images: "
            f"{_EXAMPLE}"
        )
    images = _images(rows, folder)
    check_image_files(folder, [image for image in images if isinstance(image, Path)])
    grouped = any(row.group is not None for row in rows)
    name = name_of_folder(folder if source.is_dir() or photos else source.with_suffix(""))
    members: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        if grouped and row.group is None:
            raise InputError(f"{source} line {row.number}: no group, but other lines have one")
        members.setdefault(row.group or name, []).append(index)
    groups = [_group(label, rows, images, chosen) for label, chosen in members.items()]
    used = {str(image) for image in images if isinstance(image, Path)}
    left = [photo for photo in photos if str(photo) not in used]
    notes: tuple[str, ...] = ()
    if left:
        which = ", ".join(str(photo.relative_to(folder)) for photo in left[:3])
        more = ", ..." if len(left) > 3 else ""
        notes = (f"{len(left)} of {len(photos)} images are not in {source}: {which}{more}",)
    return OwnData(GroupedDataset.from_groups(groups, name=name), grouped, folder, notes)


def _group(
    label: str, rows: Sequence[CaptionRow], images: Sequence[Any], chosen: Sequence[int]
) -> Group:
    pictured = [index for index in chosen if images[index] is not None]
    if not pictured:
        raise InputError(f"group {label!r} has captions and no image")
    place = {index: number for number, index in enumerate(chosen)}
    return Group(
        id=label,
        images=tuple(images[index] for index in pictured),
        captions=tuple(rows[index].caption for index in chosen),
        truth=tuple(place[index] for index in pictured),
    )


def _images(rows: Sequence[CaptionRow], folder: Path) -> list[ImageSource | None]:
    """Paths below the folder; two different pictures inside a table never share a name."""
    taken: dict[str, bytes] = {}
    images: list[ImageSource | None] = []
    for row in rows:
        image = row.image
        if isinstance(image, NamedBytes):
            if taken.setdefault(image.name, image.data) != image.data:
                image = replace(image, name=f"{image.name} (row {row.number})")
            images.append(image)
        else:
            images.append(None if image is None else folder / image)
    return images


def _not_read(folder: Path) -> str:
    """What is said of photographs that cannot be opened; "" if there are none."""
    found = _files_with(folder, _NOT_READ)
    if not found:
        return ""
    which = ", ".join(path.relative_to(folder).as_posix() for path in found[:3])
    more = ", ..." if len(found) > 3 else ""
    count = "1 HEIC file is" if len(found) == 1 else f"{len(found)} HEIC files are"
    return f"{count} not read: {which}{more}; save them as JPEG"


def _not_understood(folder: Path, photos: Sequence[Path]) -> InputError:
    """What was found, what is needed, an example."""
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if photos:
        found = f"{len(photos)} images and no captions"
    elif others:
        found = f"{', '.join(others[:5])}{', ...' if len(others) > 5 else ''} and no images"
    else:
        found = "nothing in it"
    if note := _not_read(folder):
        found += f" ({note})"
    return InputError(
        f"{folder} has {found}; needed are images and their captions: a table captions.csv with "
        "the columns image and caption (or only caption, if the pairs are unknown), a captions.txt "
        f"with one caption per line, or {GROUPS}. For example: {_EXAMPLE}"
    )
