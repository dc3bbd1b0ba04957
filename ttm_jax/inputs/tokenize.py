"""Conversion of captions to int32 token ids, in the format that the checkpoint was trained on.

tokenizer = load_tokenizer("checkpoints/siglip-base-patch16-224", "siglip")
ids = tokenizer(["a cat on a mat"]).ids  # int32 [1, 64], always padded, no attention mask
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int32, Integer

from ttm_jax.config import Family
from ttm_jax.errors import InputError
from ttm_jax.inputs import clean_text
from ttm_jax.inputs.clean_text import canonical_siglip, lower_ascii, lower_each, unchanged
from ttm_jax.inputs.json_files import read_optional_json
from ttm_jax.inputs.open_clip_files import (
    CONFIG,
    OFF,
    Only,
    is_open_clip,
    read_section,
    refuse_others,
)
from ttm_jax.inputs.vocabulary import find_vocabulary

Canonicalise = Literal["transformers", "big_vision", "open_clip"]

_DEFAULT_LENGTH = {"siglip": 64, "clip": 77}


class CaptionWarning(UserWarning):
    """Captions that the model will not see as written."""


@dataclass(frozen=True, eq=False)
class TokenizedCaptions:
    """Token ids padded to the model's length; `truncated` marks the captions that were cut."""

    ids: Int32[np.ndarray, "n length"]
    truncated: Bool[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class CaptionTokenizer:
    """Cleans, encodes, truncates and pads captions.

    `encode` returns the ids of clean texts without special tokens. The result is `bos_id` (CLIP
    only), the text, `eos_id` (even if the text was truncated), then `pad_id` up to `length`.
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
        """Ids of all captions, with a single `CaptionWarning` for those that were truncated."""
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
                f"were truncated, e.g. {_examples(cut)}",
                CaptionWarning,
                stacklevel=2,
            )
        return TokenizedCaptions(ids, truncated)


def load_tokenizer(
    folder: str | os.PathLike,
    family: Family,
    length: int | None = None,
    canonicalise: Canonicalise = "transformers",
    vocabulary_from: str | os.PathLike | None = None,
) -> CaptionTokenizer:
    """Load the tokenizer of a checkpoint folder (or a single tokenizer file, for a bare npz).

    SigLIP: `spiece.model`, `tokenizer.json` or Gemma's `tokenizer.model`; CLIP: `tokenizer.json` or
    `vocab.json` with `merges.txt`. With `canonicalise` "transformers", SigLIP's text is lower-cased
    and, for SigLIP 1, strips punctuation; "big_vision" only lower-cases ASCII letters. "open_clip"
    repairs the text as OpenCLIP does, and then strips punctuation for SigLIP 1 and 2, and
    lower-cases for CLIP. `vocabulary_from` has the tokenizer's files, if the folder does not.
    """
    path = Path(folder)
    files = path if vocabulary_from is None else Path(vocabulary_from)
    vocabulary = find_vocabulary(files, family)
    names = _special_tokens(files)
    start: str | None = None
    if family == "clip" and vocabulary.find("<s>") is not None:  # MetaCLIP 2: XLM-V's vocabulary
        start, end, pad = "<s>", "</s>", "<pad>"
    elif family == "clip":
        start, end, pad = "<|startoftext|>", "<|endoftext|>", "<|endoftext|>"
    elif vocabulary.find("<eos>") is not None:  # SigLIP 2: Gemma's vocabulary
        end, pad = "<eos>", "<pad>"
    else:
        end, pad = "</s>", "</s>"
    clean = _cleaning(family, end, canonicalise)
    pad_id = vocabulary.id_of(names.get("pad_token", pad))
    if is_open_clip(path):
        clean, padding = _read_open_clip(path)
        pad_id = pad_id if padding is None else padding
    return CaptionTokenizer(
        encode=vocabulary.encode,
        clean=clean,
        length=_model_length(path, family) if length is None else length,
        vocab_size=vocabulary.size,
        eos_id=vocabulary.id_of(names.get("eos_token", end)),
        pad_id=pad_id,
        bos_id=None if start is None else vocabulary.id_of(names.get("bos_token", start)),
    )


def _cleaning(family: Family, end: str, canonicalise: Canonicalise) -> Callable[[str], str]:
    if canonicalise == "open_clip":
        return clean_text.OPEN_CLIP["lower" if family == "clip" else "canonicalize"]
    if family == "clip":
        return unchanged  # the tokenizer's files describe their own cleaning
    if canonicalise == "big_vision":
        return lower_ascii
    return lower_each if end == "<eos>" else canonical_siglip


def _read_open_clip(folder: Path) -> tuple[Callable[[str], str], int | None]:
    """How OpenCLIP cleans captions for this model, and its padding if that is not the files'.

    OpenCLIP's own tokenizer is CLIP's, padded with 0. A model that names one of the hub gets that.
    """
    text = read_section(folder, "model_cfg", "text_cfg")
    where = f"{folder / CONFIG}: text_cfg"
    only = {"tokenizer_mode": (None, "")}
    refuse_others({k: v for k, v in text.items() if k in only}, only, set(), where)
    named = bool(text.get("hf_tokenizer_name"))
    settings = read_section(folder, "model_cfg", "text_cfg", "tokenizer_kwargs")
    known: Only = {"clean": tuple(clean_text.OPEN_CLIP), "strip_sep_token": OFF}
    known["reduction_mask"] = (None, "")
    refuse_others(settings, known, {"context_length"}, f"{where}.tokenizer_kwargs")
    default = "whitespace" if named else "lower"
    return clean_text.OPEN_CLIP[settings.get("clean", default)], None if named else 0


def warn_identical(
    group_ids: Sequence[str],
    text_index: Integer[np.ndarray, "group text"],
    ids: Integer[np.ndarray, "n length"],
    captions: Sequence[str],
) -> tuple[str, ...]:
    """Warn about groups with two captions that have identical token ids; return their group ids.

    Their scores tie: such a 2 x 2 group can neither be correct nor be selected.
    """
    _, code = np.unique(ids, axis=0, return_inverse=True)
    codes = code.reshape(-1)[text_index]  # [group, text], equal where the tokens are equal
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
        f"{len(found)} of {len(group_ids)} groups have two captions that are identical to the "
        f"model and cannot be told apart, e.g. {'; '.join(pairs)}",
        CaptionWarning,
        stacklevel=2,
    )
    return names


def _special_tokens(folder: Path) -> dict[str, str]:
    """The special tokens named in a folder's files, e.g. `{"pad_token": "</s>"}`."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):  # the second takes precedence
        for name, value in (read_optional_json(folder / file) if folder.is_dir() else {}).items():
            token = value.get("content") if isinstance(value, dict) else value
            if name in ("bos_token", "eos_token", "pad_token") and isinstance(token, str):
                names[name] = token
    return names


def _model_length(folder: Path, family: Family) -> int:
    """The tokenizer's length, limited to the model's positions; by default the family's."""
    if not folder.is_dir():
        return _DEFAULT_LENGTH[family]
    if is_open_clip(folder):
        length = read_section(folder, "model_cfg", "text_cfg").get("context_length")
        return length if isinstance(length, int) else _DEFAULT_LENGTH[family]
    text = read_optional_json(folder / "config.json").get("text_config") or {}
    given = (
        read_optional_json(folder / "tokenizer_config.json").get(
            "model_max_length"
        ),  # 1e30 means "not set"
        text.get("max_position_embeddings"),
    )
    known = [int(n) for n in given if isinstance(n, (int, float)) and 0 < n < 1_000_000]
    return min(known, default=_DEFAULT_LENGTH[family])


def _check_text(caption: object, position: int) -> None:
    if not isinstance(caption, str):
        raise InputError(f"caption {position} is {caption!r}; expected a string")
    try:
        caption.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"caption {position} contains a lone surrogate (half of a character pair): "
            f"{caption!a}; read its file as UTF-8"
        ) from None


def _examples(captions: Sequence[str]) -> str:
    """A few shortened captions, for a warning."""
    return ", ".join(repr(c if len(c) <= 60 else f"{c[:57]}...") for c in captions[:3])
