"""Scores in CSV: a matrix, one score per line, or one group per line (`docs/metrics.md`)."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ttm_jax.data.score_files.arrays import ScoreFile
from ttm_jax.errors import InputError
from ttm_jax.files import read_bytes

_WIDE_COLUMN = re.compile("s_(0|[1-9][0-9]{0,8})_(0|[1-9][0-9]{0,8})")
_INDEX = re.compile(r"\s*[0-9]{1,9}\s*")
_LONG_COLUMNS = ("group", "image", "caption", "score")


def read_csv(path: Path, matrix: bool) -> ScoreFile:
    """Groups of one shape, or with `matrix` plain rows of numbers without a header."""
    data = read_bytes(path)
    try:
        text = io.StringIO(data.decode("utf-8-sig"), newline="")
        rows = [row for row in enumerate(csv.reader(text), start=1) if row[1]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV ({error})") from error
    if not rows:
        raise InputError(f"{path}: the file is empty")
    if matrix:
        return ScoreFile(_rectangle(path, [(n, [_number(path, n, x) for x in r]) for n, r in rows]))
    header = [name.strip() for name in rows[0][1]]
    if len(set(header)) < len(header):
        raise InputError(f"{path}: line 1 names a column twice")
    body = list(_records(path, header, rows[1:]))
    if set(_LONG_COLUMNS) <= set(header):
        return _from_long(path, body)
    if any(_WIDE_COLUMN.fullmatch(name) for name in header):
        return _from_wide(path, header, body)
    raise InputError(
        f"{path}: line 1 is {', '.join(header)[:60]}; expected the columns "
        f"{', '.join(_LONG_COLUMNS)}, or s_0_0, s_0_1, ... with one group per line"
    )


def _records(
    path: Path, header: list[str], rows: list[tuple[int, list[str]]]
) -> Iterator[tuple[int, dict[str, str]]]:
    if not rows:
        raise InputError(f"{path}: a header and no lines below it")
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{path}: line {line} has {len(row)} fields, the header {len(header)}")
        yield line, dict(zip(header, row, strict=True))


def _from_long(path: Path, body: list[tuple[int, dict[str, str]]]) -> ScoreFile:
    """One score per line; groups in the order in which they first appear."""
    groups: dict[str, dict[tuple[int, int], float]] = {}
    tags: dict[str, dict[str, None]] = {}
    for line, record in body:
        cells = groups.setdefault(record["group"], {})
        cell = (_index(path, line, record["image"]), _index(path, line, record["caption"]))
        if cell in cells:
            raise InputError(
                f"{path}: line {line} repeats group {record['group'][:60]}, image {cell[0]}, "
                f"caption {cell[1]}"
            )
        cells[cell] = _number(path, line, record["score"])
        tags.setdefault(record["group"], {}).update(dict.fromkeys(_split(record.get("tags", ""))))
    first = next(iter(groups.values()))
    images, texts = (1 + max(cell[axis] for cell in first) for axis in (0, 1))
    for name, cells in groups.items():
        # First the number of pairs: a few lines can name the millionth image.
        if len(cells) != images * texts or cells.keys() != first.keys():
            raise InputError(
                f"{path}: group {name[:60]} has {len(cells)} scores; expected all pairs of "
                f"{images} x {texts}, as in the first group, each once"
            )
    scores = np.array(
        [[[cells[i, t] for t in range(texts)] for i in range(images)] for cells in groups.values()]
    )
    return ScoreFile(scores, tags=_if_any(tuple(tuple(t) for t in tags.values())))


def _from_wide(path: Path, header: list[str], body: list[tuple[int, dict[str, str]]]) -> ScoreFile:
    """One group per line: s_<image>_<caption>, and if known truth_<image> and tags."""
    for name in header:
        if name.startswith("s_") and not _WIDE_COLUMN.fullmatch(name):
            raise InputError(f"{path}: the column {name[:60]!r} is not s_<image>_<caption>")
    cells = {(int(m[1]), int(m[2])): name for name in header if (m := _WIDE_COLUMN.fullmatch(name))}
    images, texts = (1 + max(cell[axis] for cell in cells) for axis in (0, 1))
    if len(cells) != images * texts:
        raise InputError(
            f"{path}: {len(cells)} score columns up to s_{images - 1}_{texts - 1}; expected all "
            f"{images * texts}"
        )
    scores = np.array(
        [
            [[_number(path, n, r[cells[i, t]]) for t in range(texts)] for i in range(images)]
            for n, r in body
        ]
    )
    names = [f"truth_{i}" for i in range(images)]
    present = [name for name in names if name in header]
    if present and present != names:
        raise InputError(
            f"{path}: has {', '.join(present)} of {', '.join(names)}; give all or none"
        )
    truth = np.array([[_truth(path, n, r[t]) for t in names] for n, r in body]) if present else None
    return ScoreFile(scores, truth, _if_any(tuple(_split(r.get("tags", "")) for _, r in body)))


def _rectangle(path: Path, rows: list[tuple[int, list[float]]]) -> np.ndarray:
    first_line, first = rows[0]
    for line, row in rows:
        if len(row) != len(first):
            raise InputError(
                f"{path}: line {line} has {len(row)} numbers, line {first_line} {len(first)}"
            )
    return np.array([row for _, row in rows])


def _number(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"{path}: line {line}: {text[:60]!r} is not a number") from error


def _index(path: Path, line: int, text: str) -> int:
    if not _INDEX.fullmatch(text):
        raise InputError(f"{path}: line {line}: {text[:60]!r} is not a whole number from 0")
    return int(text)


def _truth(path: Path, line: int, text: str) -> int:
    """An index, or -1 for an image that no caption describes."""
    return -1 if text.strip() == "-1" else _index(path, line, text)


def _split(text: str) -> tuple[str, ...]:
    return tuple(tag.strip() for tag in text.split(";") if tag.strip())


def _if_any(tags: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tags if any(tags) else ()
