"""What a model folder says about its use: `advice.json`, beside its config.json.

The small models of the package carry one. It names what the model was made for, the words that it
knows, and the settings of Test-Time Matching that suit it:

    {"about": "...", "words": ["a", "red", ...], "settings": {"lr": 2e-4, "iterations": 5}}
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.inputs.json_files import read_optional_json

ADVICE = "advice.json"
_KEYS = ("about", "words", "settings")
_WORD = re.compile(r"[^\W\d_]+")
_NAMED = 5


class ForeignWordsWarning(UserWarning):
    """Captions hold words that the model has never seen."""


@dataclass(frozen=True)
class Advice:
    """All fields are optional; an empty list of words means that the words are unknown."""

    about: str = ""
    words: frozenset[str] = frozenset()
    settings: dict[str, Any] = field(default_factory=dict, hash=False)

    def foreign_words(self, captions: Sequence[str]) -> list[str]:
        """Words of the captions that are not among those of the model, in order."""
        if not self.words:
            return []
        found = dict.fromkeys(word for text in captions for word in words_of(text))
        return [word for word in found if word not in self.words]

    def warn_foreign(self, captions: Sequence[str]) -> None:
        """One warning that names some of them."""
        foreign = self.foreign_words(captions)
        if foreign:
            total = len({word for text in captions for word in words_of(text)})
            more = ", ..." if len(foreign) > _NAMED else ""
            warnings.warn(
                f"{len(foreign)} of the {total} words in the captions are unknown to this model "
                f"({', '.join(foreign[:_NAMED])}{more}), so its scores mean little. {self.about}",
                ForeignWordsWarning,
                stacklevel=3,
            )


def words_of(text: str) -> list[str]:
    """Runs of letters, in lower case."""
    return _WORD.findall(text.lower())


def read_advice(folder: Path | None) -> Advice:
    """The advice of a model folder; an empty one if it has none."""
    if folder is None:
        return Advice()
    path = folder / ADVICE
    found = read_optional_json(path)
    unknown = [key for key in found if key not in _KEYS]
    if unknown:
        raise InputError(f"{path}: unknown key {', '.join(unknown)}; known are {', '.join(_KEYS)}")
    about, words = found.get("about", ""), found.get("words", [])
    settings = found.get("settings", {})
    if not isinstance(about, str) or not isinstance(settings, dict):
        raise InputError(f"{path}: expected about as a text and settings as an object")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(f"{path}: words are not a list of texts")
    return Advice(about, frozenset(word.lower() for word in words), settings)
