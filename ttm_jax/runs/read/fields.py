"""Typed access to JSON values: what is wrong is said with file, line and field, in one line."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.plain_text import one_line

LARGEST = 3.4e38  # scores and losses are float32; sums of a few of these are safe in float64
LARGEST_INTEGER = 2**53  # beyond it, floats no longer hold every whole number
_SHOWN = 60


@dataclass(frozen=True)
class Place:
    """A file, and in files with one object per line, the line (from 1, as editors count)."""

    path: Path
    line: int | None = None

    def error(self, message: str) -> InputError:
        where = f"{self.path}" if self.line is None else f"{self.path} line {self.line}"
        return InputError(one_line(f"{where}: {message}"))


@dataclass(frozen=True)
class Fields:
    """A JSON object. Getters return the value of a key, or refuse it."""

    values: dict[str, Any]
    place: Place
    name: str = ""
    """Of the object itself inside its file: "dataset.shapes"."""

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def known(self, key: str) -> bool:
        """The key is there, and is not null."""
        return self.values.get(key) is not None

    def path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def get(self, key: str) -> Any:
        if key not in self.values:
            raise self.place.error(f"{self.path(key)} is missing")
        return self.values[key]

    def refuse(self, key: str, expected: str) -> InputError:
        return self.place.error(
            f"{self.path(key)} is {shown(self.values[key])}; expected {expected}"
        )

    def string(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise self.refuse(key, "a string")
        return value

    def boolean(self, key: str) -> bool:
        value = self.get(key)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false")
        return value

    def integer(self, key: str, low: int = 0, high: int = LARGEST_INTEGER) -> int:
        value = self.get(key)
        if not is_integer(value, low, high):
            raise self.refuse(key, _range("an integer", low, high))
        return value

    def number(self, key: str, low: float = -LARGEST, high: float = LARGEST) -> float:
        value = self.get(key)
        if not is_number(value, low, high):
            raise self.refuse(key, _range("a number", low, high))
        return float(value)

    def known_number(self, key: str, low: float = -LARGEST, high: float = LARGEST) -> float | None:
        return None if self.get(key) is None else self.number(key, low, high)

    def one_of(self, key: str, choices: Sequence[str]) -> str:
        value = self.get(key)
        if not isinstance(value, str) or value not in choices:
            raise self.refuse(key, " or ".join(choices))
        return value

    def nested(self, key: str) -> "Fields":
        value = self.get(key)
        if not isinstance(value, dict):
            raise self.refuse(key, "an object in braces")
        return Fields(value, self.place, self.path(key))

    def array(self, key: str) -> list[Any]:
        value = self.get(key)
        if not isinstance(value, list):
            raise self.refuse(key, "a list")
        return value

    def numbers(self, key: str) -> list[float]:
        values = self.array(key)
        for at, value in enumerate(values):
            if not is_number(value):
                raise self.item_error(key, at, "a number")
        return [float(value) for value in values]

    def integers(self, key: str, low: int, high: int, length: int | None = None) -> list[int]:
        """A list of indices."""
        values = self.array(key)
        if length is not None and len(values) != length:
            raise self.place.error(f"{self.path(key)} has {len(values)} entries; expected {length}")
        for at, value in enumerate(values):
            if not is_integer(value, low, high):
                raise self.item_error(key, at, _range("an integer", low, high))
        return values

    def strings(self, key: str, *, null: bool = False) -> list[Any]:
        """A list of strings; with `null`, some may be null."""
        values = self.array(key)
        for at, value in enumerate(values):
            if not isinstance(value, str) and not (null and value is None):
                raise self.item_error(key, at, "a string or null" if null else "a string")
        return values

    def item_error(self, key: str, at: int, expected: str) -> InputError:
        value = shown(self.values[key][at])
        return self.place.error(f"{self.path(key)}[{at}] is {value}; expected {expected}")


def is_integer(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_number(value: Any, low: float | int = -LARGEST, high: float | int = LARGEST) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return low <= value <= high and math.isfinite(value)


def shown(value: Any) -> str:
    """The beginning of a value, as it stands in the file."""
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return f"{kind} of {len(value)}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _range(what: str, low: float | int, high: float | int) -> str:
    bottom = None if low == -LARGEST else f"{low:g}" if isinstance(low, float) else str(low)
    open_top = high in (LARGEST, LARGEST_INTEGER)
    top = None if open_top else f"{high:g}" if isinstance(high, float) else str(high)
    if bottom is None:
        return what if top is None else f"{what} of at most {top}"
    return f"{what} of at least {bottom}" if top is None else f"{what} from {bottom} to {top}"
