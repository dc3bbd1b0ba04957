"""The entries of an annotation in JSON; every error names the file and the entry."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.data.download.addresses import safe_path
from ttm_jax.data.not_prepared import read_annotation
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Entry:
    """One element of a list, or one value of an object."""

    path: Path
    key: str
    values: Any

    def text(self, name: str | int) -> str:
        """A text that is not empty."""
        value = self._get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{name} is {_short(value)}; expected a text that is not empty")
        return value

    def texts(self, name: str | int) -> list[str]:
        """A list of texts of which none is empty."""
        value = self._get(name)
        is_list = isinstance(value, list) and len(value) > 0
        if not is_list or not all(isinstance(text, str) and text.strip() for text in value):
            raise self.error(f"{name} is {_short(value)}; expected a list of texts")
        return value

    def number(self, name: str | int) -> int:
        """A whole number that is not negative; 12.0 counts as one."""
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise self.error(f"{name} is {_short(value)}; expected a number from 0")
        if value != value // 1 or value > 2**31:
            raise self.error(f"{name} is {_short(value)}; expected a whole number")
        return int(value)

    def file(self, name: str | int, folder: Path) -> Path:
        """A path within `folder`."""
        text = self.text(name)
        relative = safe_path(text)
        if relative is None or not relative.parts:
            raise self.error(f"{name} is {_short(text)}; expected a path within {folder}")
        return folder / relative

    def error(self, message: str) -> InputError:
        return InputError(f"{self.path} entry {self.key}: {message}")

    def _get(self, name: str | int) -> Any:
        if isinstance(name, int):
            if not isinstance(self.values, list) or len(self.values) <= name:
                raise self.error(f"is {_short(self.values)}; expected a list")
            return self.values[name]
        if not isinstance(self.values, dict):
            raise self.error(f"is {_short(self.values)}; expected an object")
        if name not in self.values:
            raise self.error(f"has no {name!r}; it has {', '.join(map(repr, self.values))[:200]}")
        return self.values[name]


def read_entries(path: Path, kind: type[list] | type[dict]) -> Iterator[Entry]:
    """The entries of a file that holds a list or an object, numbered from 0 or with their keys."""
    content = read_annotation(path)
    if not isinstance(content, kind):
        expected = "a list" if kind is list else "an object"
        raise InputError(f"{path} holds a JSON {type(content).__name__}; expected {expected}")
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for key, values in pairs:
        yield Entry(path, str(key), values)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
