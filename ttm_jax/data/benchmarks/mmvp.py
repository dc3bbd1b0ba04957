"""MMVP-VLM (Tong et al. 2024): 135 groups of two images that CLIP embeds nearly alike.

Published as https://huggingface.co/datasets/MMVP/MMVP_VLM (MIT): `Questions.csv` with the columns
Question ID, Type and Statement, and `MLLM_VLM Images/<Type>/<Question ID>.jpg`. Two consecutive
rows are a group, and there are nine types of 15 groups each, as the authors' evaluation reads it
(https://github.com/tsb0601/MMVP, scripts/evaluate_vlm.py). That program puts "a photo of" before
the statement; Test-Time Matching does not.
"""

import csv
import io
from pathlib import Path

from ttm_jax.data.groups import Group
from ttm_jax.data.not_prepared import require_file
from ttm_jax.errors import InputError
from ttm_jax.files import read_bytes

QUESTIONS = "Questions.csv"
IMAGES = "MLLM_VLM Images"
_COLUMNS = ("Question ID", "Type", "Statement")


def annotation_files(folder: Path) -> list[Path]:
    return [folder / QUESTIONS]


def read_groups(folder: Path) -> list[Group]:
    """Image i belongs to statement i; the tag is the type."""
    path = require_file(folder / QUESTIONS)
    rows = _read_csv(path)
    if len(rows) % 2:
        raise InputError(f"{path} has {len(rows)} rows; two rows make a group: one is missing")
    return [
        _group(path, folder / IMAGES, first, second)
        for first, second in zip(rows[::2], rows[1::2], strict=True)
    ]


def _group(path: Path, images: Path, first: dict[str, str], second: dict[str, str]) -> Group:
    ids = (first["Question ID"], second["Question ID"])
    if first["Type"] != second["Type"]:
        raise InputError(
            f"{path}: questions {ids[0]} and {ids[1]} should be a group, but their types are "
            f"{first['Type']!r} and {second['Type']!r}; are rows missing or reordered?"
        )
    return Group(
        id=f"{ids[0]}-{ids[1]}",
        images=tuple(images / row["Type"] / f"{row['Question ID']}.jpg" for row in (first, second)),
        captions=(first["Statement"], second["Statement"]),
        truth=(0, 1),
        tags=(first["Type"],),
    )


def _read_csv(path: Path) -> list[dict[str, str]]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        names = list(reader.fieldnames or [])
        rows = list(reader)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason}); fetch it again") from error
    except csv.Error as error:
        raise InputError(f"{path} is not CSV ({error}); fetch it again") from error
    if any(name not in names for name in _COLUMNS):
        raise InputError(f"{path} has the columns {names}; expected {', '.join(_COLUMNS)}")
    for row in rows:
        _check_row(path, row)
    return rows


def _check_row(path: Path, row: dict[str, str]) -> None:
    number, kind = row["Question ID"] or "", row["Type"]
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise InputError(f"{path}: Question ID is {number[:60]!r}; expected a whole number")
    if not kind or kind in (".", "..") or any(letter in kind for letter in "/\\\0"):
        raise InputError(
            f"{path}: question {number} has the type {kind!r}; expected the name of a folder in "
            f"{IMAGES}"
        )
    if not (row["Statement"] or "").strip():
        raise InputError(f"{path}: question {number} has no statement")
