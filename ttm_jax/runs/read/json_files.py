"""JSON files and files of JSON lines, read within limits (`ttm_jax.limits`) and without surprises.

Refused, with file and line: text that is not UTF-8, a key that appears twice, NaN and infinity,
numbers that no float holds, unpaired surrogates, and nesting deeper than anything here needs.
"""

import json
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from ttm_jax.limits import allowed, variable
from ttm_jax.runs.read.fields import Fields, Place

_MOST_DIGITS = 18


def read_object(path: Path, limit: str = "SETTINGS_BYTES") -> Fields:
    """The one object of a JSON file; `limit` names the limit on its size."""
    place = Place(path)
    return Fields(parse_object(read_bytes(path, limit), place), place)


def read_optional_object(path: Path) -> Fields:
    """The same, but an absent file is an empty object."""
    return read_object(path) if os.path.lexists(path) else Fields({}, Place(path))


@dataclass
class Lines:
    """The objects of a file with one JSON object per line.

    A run appends to such files while it is read. So a last line without its newline is no error: it
    is left out, and `cut` is its number.
    """

    path: Path
    cut: int | None = None

    @property
    def place(self) -> Place:
        return Place(self.path)

    def __iter__(self) -> Iterator[Fields]:
        most = allowed("LINE_BYTES")
        with open_file(self.path, "LINES_BYTES") as file:
            for number in count(1):
                place = Place(self.path, number)
                data = file.readline(most + 1)
                if len(data) > most:
                    raise place.error(f"longer than {most} bytes ({variable('LINE_BYTES')})")
                if not data.endswith(b"\n"):
                    self.cut = number if data else None
                    return
                yield Fields(parse_object(data, place), place)


def open_file(path: Path, limit: str) -> BinaryIO:
    """A regular file of no more than the allowed size."""
    place = Place(path)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # opening a named pipe would wait for a writer
            raise place.error("not a regular file")
        check_size(place, found.st_size, limit)
        return path.open("rb")
    except FileNotFoundError:
        raise place.error("no such file") from None
    except OSError as error:
        raise place.error(f"cannot be read: {error.strerror or error}") from None


def check_size(place: Place, size: int, limit: str) -> None:
    """Refuse what is larger than a limit allows."""
    if size > allowed(limit):
        raise place.error(
            f"{size} bytes; at most {allowed(limit)} are read ({variable(limit)} raises this)"
        )


def read_bytes(path: Path, limit: str) -> bytes:
    """A whole file, as long as it was when it was opened."""
    with open_file(path, limit) as file:
        return file.read(min(os.fstat(file.fileno()).st_size, allowed(limit)))


def parse_object(data: bytes, place: Place) -> dict[str, Any]:
    """The JSON object that these bytes are."""
    try:
        text = data.decode("utf-8")
        values = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Place(place.path, place.line or line).error("not UTF-8") from None
    except json.JSONDecodeError as error:
        problem = "empty" if not text.strip() else f"not JSON: {error.msg}, column {error.colno}"
        raise Place(place.path, place.line or error.lineno).error(problem) from None
    except ValueError as error:  # of the hooks below
        raise place.error(str(error)) from None
    except RecursionError:
        raise place.error("nested too deeply") from None
    if not isinstance(values, dict):
        raise place.error(f"a JSON {_kind(values)}; expected an object in braces")
    if text.count("[") + text.count("{") > allowed("JSON_DEPTH") or "\\ud" in text.lower():
        _check_inside(values, place)
    return values


def _check_inside(values: dict[str, Any], place: Place) -> None:
    deepest = allowed("JSON_DEPTH")
    level: list[Any] = [values]
    for depth in count(1):
        below: list[Any] = []
        for value in level:
            for item in (*value, *value.values()) if isinstance(value, dict) else value:
                if isinstance(item, dict | list):
                    below.append(item)
                elif isinstance(item, str) and not item.isascii() and not _is_text(item):
                    raise place.error("an unpaired surrogate (\\ud800 to \\udfff) in a string")
        if not below:
            return
        if depth == deepest:
            raise place.error(f"nested deeper than {deepest} ({variable('JSON_DEPTH')})")
        level = below


def _kind(value: Any) -> str:
    names = {list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {json.dumps(twice)[:80]} appears twice in an object")
    return values


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not a number; expected a finite one or null")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_repeats,
    parse_int=_integer,
    parse_float=_number,
    parse_constant=_constant,
)
