"""From captions to int32 token ids, as the checkpoint was trained to read them.

tokenizer = load_tokenizer("checkpoints/siglip-base-patch16-224", "siglip")
ids = tokenizer(["a cat on a mat"]).ids  # int32 [1, 64], always padded, no attention mask
"""

import os
import re
import string
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int32, Integer

from ttm_jax.checkpoint_json import Family, read_optional_json
from ttm_jax.errors import InputError
from ttm_jax.vocabulary import find_vocabulary

Canonicalise = Literal["transformers", "big_vision"]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LOWER_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_DEFAULT_LENGTH = {"siglip": 64, "clip": 77}


class CaptionWarning(UserWarning):
    """Captions that the model will not see as they were written."""


@dataclass(frozen=True, eq=False)
class TokenizedCaptions:
    """Token ids, padded to the length of the model; `truncated` says which captions were cut."""

    ids: Int32[np.ndarray, "n length"]
    truncated: Bool[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class CaptionTokenizer:
    """Cleans, encodes, cuts, frames and pads captions.

    `encode` gives the ids of clean texts without special tokens; the frame is ours: `bos_id` (CLIP
    only), the text, `eos_id` even where the text was cut, then `pad_id` up to `length`.
    """

    encode: Callable[[list[str]], list[list[int]]]
    clean: Callable[[str], str]
    length: int
    vocab_size: int
    eos_id: int
    pad_id: int
    bos_id: int | None = None

    def __post_init__(self) -> None:
        if self.length < 3:
            raise InputError(f"caption length is {self.length} tokens; expected at least 3")

    def __call__(self, captions: Sequence[str]) -> TokenizedCaptions:
        """Ids of all captions, with one `CaptionWarning` for all that had to be cut."""
        for position, caption in enumerate(captions):
            _check_text(caption, position)
        start = [] if self.bos_id is None else [self.bos_id]
        room = self.length - len(start) - 1
        ids = np.full((len(captions), self.length), self.pad_id, np.int32)
        truncated = np.zeros(len(captions), bool)
        encoded = self.encode([self.clean(c) for c in captions]) if len(captions) else []
        for row, tokens in enumerate(encoded):
            truncated[row] = len(tokens) > room
            framed = [*start, *tokens[:room], self.eos_id]
            ids[row, : len(framed)] = framed
        if truncated.any():
            cut = [captions[row] for row in np.flatnonzero(truncated).tolist()]
            warnings.warn(
                f"{len(cut)} of {len(captions)} captions are longer than {self.length} tokens and "
                f"were cut, e.g. {_examples(cut)}",
                CaptionWarning,
                stacklevel=2,
            )
        return TokenizedCaptions(ids, truncated)


def load_tokenizer(
    folder: str | os.PathLike,
    family: Family,
    length: int | None = None,
    canonicalise: Canonicalise = "transformers",
) -> CaptionTokenizer:
    """The tokenizer of a checkpoint folder (or of one tokenizer file, for a bare npz).

    SigLIP: `spiece.model`, `tokenizer.json` or Gemma's `tokenizer.model`; CLIP: `tokenizer.json` or
    `vocab.json` with `merges.txt`. `canonicalise` concerns SigLIP: "transformers" lower-cases and,
    for SigLIP 1, strips punctuation; "big_vision" lower-cases ASCII letters and keeps the rest.
    """
    path = Path(folder)
    vocabulary = find_vocabulary(path, family)
    names = _special_tokens(path)
    clean: Callable[[str], str]
    start: str | None = None
    if family == "clip":
        start, end, pad = "<|startoftext|>", "<|endoftext|>", "<|endoftext|>"
        clean = _unchanged  # CLIP's tokenizer files describe their own cleaning
    elif vocabulary.find("<eos>") is not None:  # SigLIP 2: the vocabulary of Gemma
        end, pad = "<eos>", "<pad>"
        clean = lower_each if canonicalise == "transformers" else lower_ascii
    else:
        end, pad = "</s>", "</s>"
        clean = canonical_siglip if canonicalise == "transformers" else lower_ascii
    return CaptionTokenizer(
        encode=vocabulary.encode,
        clean=clean,
        length=_model_length(path, family) if length is None else length,
        vocab_size=vocabulary.size,
        eos_id=vocabulary.id_of(names.get("eos_token", end)),
        pad_id=vocabulary.id_of(names.get("pad_token", pad)),
        bos_id=None if start is None else vocabulary.id_of(names.get("bos_token", start)),
    )


def canonical_siglip(text: str) -> str:
    """SigLIP 1's evaluation text: lower case, no ASCII punctuation, single spaces.

    U+2581 is sentencepiece's own mark for a space, so it is one.
    """
    text = text.replace("\u2581", " ").lower().translate(_NO_PUNCTUATION)
    return re.sub(r"\s+", " ", text).strip()


def lower_each(text: str) -> str:
    """SigLIP 2's text: lower case, one character at a time, as transformers' Siglip2Tokenizer does.

    (Python's own `lower` looks around a Greek sigma.)
    """
    return "".join(map(str.lower, text))


def lower_ascii(text: str) -> str:
    """big_vision's lower-casing: TensorFlow's, which by default changes ASCII letters only."""
    return text.translate(_LOWER_ASCII)


def warn_identical(
    group_ids: Sequence[str],
    text_index: Integer[np.ndarray, "group text"],
    ids: Integer[np.ndarray, "n length"],
    captions: Sequence[str],
) -> tuple[str, ...]:
    """Warn of groups with two captions that are one and the same to the model; return their ids.

    Their scores tie: a 2 x 2 group of this kind can neither be won nor selected.
    """
    _, code = np.unique(ids, axis=0, return_inverse=True)
    codes = code.reshape(-1)[text_index]  # [group, text], equal where the tokens are
    order = np.argsort(codes, axis=1, kind="stable")
    same = np.diff(np.take_along_axis(codes, order, axis=1), axis=1) == 0  # [group, text - 1]
    found = np.flatnonzero(same.any(axis=1)).tolist()
    if not found:
        return ()
    names = tuple(group_ids[g] for g in found)
    pairs = []
    for group in found[:3]:
        at = int(np.argmax(same[group]))
        first, second = text_index[group, order[group, at : at + 2]].tolist()
        pairs.append(f"{group_ids[group]} ({_examples([captions[first], captions[second]])})")
    warnings.warn(
        f"{len(found)} of {len(group_ids)} groups have two captions that are the same to the model "
        f"and cannot be told apart, e.g. {'; '.join(pairs)}",
        CaptionWarning,
        stacklevel=2,
    )
    return names


def _special_tokens(folder: Path) -> dict[str, str]:
    """The special tokens that the files of a folder name, e.g. `{"pad_token": "</s>"}`."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):  # the second one wins
        for name, value in (read_optional_json(folder / file) if folder.is_dir() else {}).items():
            token = value.get("content") if isinstance(value, dict) else value
            if name in ("bos_token", "eos_token", "pad_token") and isinstance(token, str):
                names[name] = token
    return names


def _model_length(folder: Path, family: Family) -> int:
    """The tokenizer's own length, within what the model has positions for; else the family's."""
    if not folder.is_dir():
        return _DEFAULT_LENGTH[family]
    text = read_optional_json(folder / "config.json").get("text_config") or {}
    given = (
        read_optional_json(folder / "tokenizer_config.json").get(
            "model_max_length"
        ),  # 1e30 means "not set"
        text.get("max_position_embeddings"),
    )
    known = [int(n) for n in given if isinstance(n, (int, float)) and 0 < n < 1_000_000]
    return min(known, default=_DEFAULT_LENGTH[family])


def _unchanged(text: str) -> str:
    return text


def _check_text(caption: object, position: int) -> None:
    if not isinstance(caption, str):
        raise InputError(f"caption {position} is {caption!r}; expected a string")
    try:
        caption.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"caption {position} has a character that is half of a pair (a lone surrogate): "
            f"{caption!a}; read its file as UTF-8"
        ) from None


def _examples(captions: Sequence[str]) -> str:
    """A few captions, shortened, for a warning."""
    return ", ".join(repr(c if len(c) <= 60 else f"{c[:57]}...") for c in captions[:3])
