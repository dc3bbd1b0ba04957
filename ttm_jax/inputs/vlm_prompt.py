"""SmolVLM's prompt: an image, a question about it, and the start of the answer.

    <|im_start|>User:IMAGE Does this image show "a cat"? ...<end_of_utterance>\\nAssistant:

(without the space before the question). The part up to the end of the image is the same for all
questions about it. It ends with a special token, so both parts can be tokenized separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from ttm_jax.errors import InputError
from ttm_jax.inputs.vqa_prompts import check_template, fill

START, END = "<|im_start|>", "<end_of_utterance>"
FRAME, IMAGE, GLOBAL = "<fake_token_around_image>", "<image>", "<global-img>"
PAD_ID = 2  # the padding token; nothing attends to it


def image_text(rows: int, columns: int, tile_tokens: int) -> str:
    """Placeholders for the tiles of an image, with row and column; the whole image last."""
    tokens = IMAGE * tile_tokens
    if not rows:
        return f"{FRAME}{GLOBAL}{tokens}{FRAME}"
    lines = (
        "".join(f"{FRAME}<row_{r + 1}_col_{c + 1}>{tokens}" for c in range(columns)) + "\n"
        for r in range(rows)
    )
    return "".join(lines) + f"\n{FRAME}{GLOBAL}{tokens}{FRAME}"


@dataclass(frozen=True, eq=False)
class PromptTokenizer:
    """Tokenizes the two parts of a prompt. `vocabulary` is a `tokenizers.Tokenizer`."""

    vocabulary: Any = field(repr=False)
    tile_tokens: int

    @classmethod
    def from_folder(cls, folder: Path, tile_tokens: int) -> "PromptTokenizer":
        from tokenizers import Tokenizer

        path = Path(folder) / "tokenizer.json"
        if not path.is_file():
            raise InputError(f"{path} does not exist; SmolVLM's prompt needs it")
        try:
            vocabulary = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise InputError(f"{path} is not a tokenizer: {error}") from error
        missing = [
            t for t in (START, END, FRAME, IMAGE, GLOBAL) if vocabulary.token_to_id(t) is None
        ]
        if missing:
            raise InputError(f"{path} lacks {', '.join(missing)}: it is not SmolVLM's tokenizer")
        if vocabulary.encode("a").ids != vocabulary.encode("a", add_special_tokens=False).ids:
            raise InputError(f"{path} adds tokens around every text, which SmolVLM's does not")
        return cls(vocabulary, tile_tokens)

    @property
    def image_token_id(self) -> int:
        return self.vocabulary.token_to_id(IMAGE)

    @cached_property
    def special(self) -> dict[int, str]:
        """The special tokens, by id."""
        added = self.vocabulary.get_added_tokens_decoder()
        return {number: token.content for number, token in added.items() if token.special}

    def image_part(self, rows: int, columns: int) -> list[int]:
        """Ids from the start of the prompt to the end of the image."""
        return self._encode(f"{START}User:{image_text(rows, columns, self.tile_tokens)}")

    def question_part(self, question: str) -> list[int]:
        """Ids from the question to the start of the answer."""
        inside = {self.special[i] for i in self._encode(question) if i in self.special}
        if inside:
            raise InputError(
                f"the question {question!r} contains {', '.join(sorted(inside))}, which the model "
                "does not read as text; change the caption"
            )
        return self._encode(f"{question}{END}\nAssistant:")

    def answer_id(self, answer: str) -> int:
        """The token of a one-word answer, including the leading space that follows the prompt."""
        ids = self._encode(f" {answer}")
        if len(ids) != 1:
            raise InputError(
                f"the answer {answer!r} has {len(ids)} tokens; expected a single token"
            )
        return ids[0]

    def _encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(text, add_special_tokens=False).ids


def ask(template: str, captions: Sequence[str]) -> list[str]:
    """The question about each caption: `{text}` in the template is replaced by the caption."""
    check_template(template)
    for position, caption in enumerate(captions):
        if not isinstance(caption, str) or not caption.strip():
            raise InputError(f"caption {position} is {caption!r}; expected a string")
    return [fill(template, caption) for caption in captions]


def pad(rows: Sequence[Sequence[int]], multiple: int = 1) -> Int32[np.ndarray, "n length"]:
    """Rows of ids as one array, padded on the right to a common length."""
    longest = max((len(row) for row in rows), default=0)
    length = -(-max(longest, 1) // multiple) * multiple
    ids = np.full((len(rows), length), PAD_ID, np.int32)
    for row, target in zip(rows, ids, strict=True):
        target[: len(row)] = row
    return ids


def lengths(rows: Sequence[Sequence[int]]) -> Int32[np.ndarray, "n"]:
    return np.asarray([len(row) for row in rows], np.int32)
