"""Captions, and the images that they belong to, from a table: .txt, .csv, .tsv or .parquet."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.data.parquet_rows import read_parquet
from ttm_jax.errors import InputError
from ttm_jax.files import read_bytes
from ttm_jax.inputs.image_decode import NamedBytes

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".txt")
# Names of columns that people use; the first that a table has is taken.
_IMAGE_NAMES = ("image", "file_name", "filename", "image_path", "filepath", "path", "file", "photo")
_CAPTION_NAMES = ("caption", "text", "captions", "sentence", "description", "title")
_GROUP_NAMES = ("group", "group_id")
_KNOWN = {*_IMAGE_NAMES, *_CAPTION_NAMES, *_GROUP_NAMES}


@dataclass(frozen=True)
class CaptionRow:
    """One caption; `image` is a file name or an encoded picture, None if the table has none."""

    number: int
    """Line of the file, from 1; in Parquet the row, from 0."""
    caption: str
    image: str | NamedBytes | None = None
    group: str | None = None


def is_table_name(text: str) -> bool:
    """Whether this is the name of such a file rather than a caption; it need not exist."""
    return text.lower().endswith(TABLE_SUFFIXES) and (" " not in text or Path(text).is_file())


def read_caption_table(
    path: Path, image_column: str | None = None, caption_column: str | None = None
) -> list[CaptionRow]:
    """Every row with a caption. The columns are found by their usual names unless given."""
    suffix = path.suffix.lower()
    if suffix == ".txt":
        lines = _text(path).splitlines()
        rows = [CaptionRow(n, line.strip()) for n, line in enumerate(lines, 1) if line.strip()]
    elif suffix in (".csv", ".tsv"):
        header, body = _read_csv(path, "\t" if suffix == ".tsv" else ",;\t", caption_column)
        rows = _from_columns(path, header, body, image_column, caption_column)
    elif suffix == ".parquet":
        names, values = read_parquet([path])
        rows = _from_columns(path, names, values, image_column, caption_column)
    else:
        raise InputError(f"{path}: expected a file that ends in {', '.join(TABLE_SUFFIXES)}")
    if not rows:
        raise InputError(f"{path} has no captions; expected one per line")
    return rows


def read_parquet_folder(
    files: Sequence[Path], image_column: str | None, caption_column: str | None
) -> list[CaptionRow]:
    """A dataset of the Hugging Face hub: one or more Parquet files with the same columns."""
    names, values = read_parquet(files)
    return _from_columns(files[0].parent, names, values, image_column, caption_column)


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save it as UTF-8") from None


def _read_csv(
    path: Path, delimiters: str, caption_column: str | None
) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    """Column names and numbered rows; a table without a header is one of captions or of pairs."""
    text = _text(path)
    try:
        delimiter = _delimiter(text, delimiters, caption_column)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as CSV: {error}") from None
    if not lines:
        raise InputError(f"{path} is empty; expected the columns image and caption")
    header = [cell.strip() for cell in lines[0][1]]
    if caption_column is None and not _KNOWN & {cell.lower() for cell in header}:
        named = Path(header[0]).suffix.lower() in IMAGE_SUFFIXES
        if len(header) == 1 and not named:
            header = ["caption"]
        elif len(header) == 2 and named:
            header = ["image", "caption"]
        else:
            raise InputError(
                f"{path}: line 1 is {', '.join(header)[:80]}; expected the columns image and "
                "caption, or name yours with --image-column and --caption-column"
            )
    else:
        lines = lines[1:]
    for number, row in lines:
        if len(row) != len(header):
            raise InputError(
                f"{path} line {number} has {len(row)} fields for {len(header)} columns; put "
                'captions with a comma in "quotes"'
            )
    return header, [(number, dict(zip(header, row, strict=True))) for number, row in lines]


def _delimiter(text: str, choices: str, caption_column: str | None) -> str:
    """The first at which line 1 becomes a header or a pair; spreadsheets also write semicolons."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    for choice in choices:
        cells = [cell.strip() for row in csv.reader([first], delimiter=choice) for cell in row]
        names = {cell.lower() for cell in cells}
        pair = len(cells) == 2 and Path(cells[0]).suffix.lower() in IMAGE_SUFFIXES
        if caption_column in cells or (len(cells) > 1 and names & _KNOWN) or pair:
            return choice
    return choices[0]


def _from_columns(
    path: Path,
    names: Sequence[str],
    rows: Sequence[tuple[int, dict[str, Any]]],
    image_column: str | None,
    caption_column: str | None,
) -> list[CaptionRow]:
    caption = _column(path, names, caption_column, _CAPTION_NAMES)
    if caption is None:
        raise InputError(
            f"{path} has the columns {', '.join(names)[:200]} and none of "
            f"{', '.join(_CAPTION_NAMES)}; name yours with --caption-column"
        )
    image = _column(path, names, image_column, _IMAGE_NAMES)
    group = _column(path, names, None, _GROUP_NAMES)
    found = []
    for number, values in rows:
        text = values[caption]
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{path} line {number}: {caption} is empty; expected a caption")
        picture = None if image is None else _picture(path, number, image, values[image])
        label = None if group is None or values[group] is None else str(values[group])
        found.append(CaptionRow(number, text.strip(), picture, label))
    return found


def _column(
    path: Path, names: Sequence[str], wanted: str | None, usual: Sequence[str]
) -> str | None:
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{path} has no column {wanted!r}; it has {', '.join(names)[:200]}")
        return wanted
    by_name = {name.lower(): name for name in names}
    return next((by_name[name] for name in usual if name in by_name), None)


def _picture(path: Path, number: int, column: str, value: Any) -> str | NamedBytes | None:
    """A file name, or the struct of bytes and path with which the hub stores a picture."""
    if value is None or value == "":
        return None
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return NamedBytes(value.get("path") or f"{path.name} row {number}", value["bytes"])
    if isinstance(value, dict) and isinstance(value.get("path"), str):
        return value["path"]
    if isinstance(value, str):
        return value.strip()
    kind = type(value).__name__
    raise InputError(f"{path} line {number}: {column} is a {kind}; expected a file or a picture")
