"""One JSON object per line, read strictly: every error names the file and the line."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.files import read_bytes


@dataclass(frozen=True)
class Line:
    path: Path
    number: int  # from 1, as editors count
    values: dict[str, Any]

    def error(self, message: str) -> InputError:
        return InputError(f"{self.path} line {self.number}: {message}")


def read_lines(path: Path, required: tuple[str, ...], optional: tuple[str, ...]) -> list[Line]:
    """The objects of a file. Unknown keys are refused: a mistyped "truth" must not go unnoticed."""
    lines = []
    # Not splitlines(): a caption may hold other line separators than the newline.
    for number, text in enumerate(_read_text(path).split("\n"), start=1):
        if text.strip():
            lines.append(Line(path, number, _parse(path, number, text)))
            _check_keys(lines[-1], required, optional)
    if not lines:
        raise InputError(f"{path} is empty; expected one JSON object per line")
    return lines


def _read_text(path: Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")  # some editors put a byte-order mark in front
    except UnicodeDecodeError as error:
        number = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path} line {number}: not UTF-8; save the file as UTF-8") from None


def _parse(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text, object_pairs_hook=_no_repeats)
    except RecursionError:
        raise InputError(f"{path} line {number}: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{path} line {number}: not one JSON object per line: {error}") from None
    if not isinstance(values, dict):
        kind = type(values).__name__
        raise InputError(f"{path} line {number}: a JSON {kind}; expected an object in braces")
    return values


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"a key is given twice in {', '.join(keys)[:200]}")
    return values


def _check_keys(line: Line, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    missing = [key for key in required if key not in line.values]
    if missing:
        raise line.error(f"{', '.join(missing)} missing; expected {', '.join(required)}")
    unknown = [key for key in line.values if key not in required + optional]
    if unknown:
        raise line.error(
            f"unknown key {', '.join(unknown)}; known are {', '.join(required + optional)}"
        )
