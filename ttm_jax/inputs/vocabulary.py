"""A common interface to all kinds of tokenizer files: encode texts, and look up a token's id."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.config import Family
from ttm_jax.errors import InputError

# In order of preference.
_SIGLIP_FILES = ("spiece.model", "tokenizer.json", "tokenizer.model", "sentencepiece.model")
_NO_ADVICE = "TRANSFORMERS_NO_ADVISORY_WARNINGS"
_CLIP_FILES = ("tokenizer.json", "vocab.json")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """`encode` converts texts to ids without special tokens; `find` returns the id of a token."""

    file: Path
    size: int
    encode: Callable[[list[str]], list[list[int]]]
    find: Callable[[str], int | None]

    def id_of(self, token: str) -> int:
        found = self.find(token)
        if found is None:
            raise InputError(f"{self.file} has no token {token!r}; is it for this model family?")
        return found


def find_vocabulary(path: Path, family: Family) -> Vocabulary:
    """The tokenizer of a folder, or the single file at `path`.

    `spiece.model` is SigLIP 1's original and is preferred; SigLIP 2 comes with Gemma's
    `tokenizer.json`, or with `tokenizer.model` from big_vision.
    """
    if path.is_file():
        return _read_tokenizer_json(path) if path.suffix == ".json" else _read_sentencepiece(path)
    names = _SIGLIP_FILES if family == "siglip" else _CLIP_FILES
    for file in (path / name for name in names):
        if not file.is_file():
            continue
        if file.name == "vocab.json":
            return _read_clip_bpe(path)
        return _read_tokenizer_json(file) if file.suffix == ".json" else _read_sentencepiece(file)
    raise InputError(
        f"no tokenizer in {path}; looked for {', '.join(names)}; copy it from the checkpoint that "
        "the weights come from"
    )


def _read_sentencepiece(file: Path) -> Vocabulary:
    """A sentencepiece model, read by sentencepiece itself.

    transformers' SiglipTokenizer wraps the same library but cleans the text in its own way, which
    differs between versions; here the text is already clean.
    """
    import sentencepiece

    try:
        data = file.read_bytes()
        if not data:  # sentencepiece takes this for no model at all, and prints when it is asked
            raise RuntimeError("it is empty")
        model = sentencepiece.SentencePieceProcessor(model_proto=data)
        if not model.get_piece_size():
            raise RuntimeError("it has no pieces")
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"{file} is not a sentencepiece model: {error}; download it again"
        ) from error

    def find(token: str) -> int | None:
        found = model.piece_to_id(token)
        return found if model.id_to_piece(found) == token else None

    return Vocabulary(file, model.get_piece_size(), model.encode, find)


def _read_tokenizer_json(file: Path) -> Vocabulary:
    """A `tokenizer.json`, which describes its whole pipeline, through transformers."""
    with _without_advice():
        from transformers import PreTrainedTokenizerFast

    return _from_transformers(file, lambda: PreTrainedTokenizerFast(tokenizer_file=str(file)))


@contextmanager
def _without_advice() -> Iterator[None]:
    """Import transformers without its note that PyTorch is missing: only tokenizers are used."""
    before = os.environ.get(_NO_ADVICE)
    os.environ[_NO_ADVICE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_ADVICE]
        else:
            os.environ[_NO_ADVICE] = before


def _read_clip_bpe(folder: Path) -> Vocabulary:
    """CLIP's `vocab.json` and `merges.txt`, through transformers."""
    with _without_advice():
        import transformers

    if not (folder / "merges.txt").is_file():
        raise InputError(f"{folder} has vocab.json but no merges.txt; the tokenizer needs both")
    # The name of the fast class in version 4; version 5 still has it.
    fast = transformers.CLIPTokenizerFast  # type: ignore[attr-defined]
    return _from_transformers(
        folder / "vocab.json",
        lambda: fast.from_pretrained(os.fspath(folder), local_files_only=True),
    )


def _from_transformers(file: Path, load: Callable[[], Any]) -> Vocabulary:
    try:
        tokenizer = load()
    except Exception as error:  # the Rust library raises plain Exception for a bad file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{file} is not a tokenizer: {reason}; download it again") from error

    def encode(texts: list[str]) -> list[list[int]]:
        return tokenizer(
            texts,
            add_special_tokens=False,
            truncation=False,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # we warn about long captions ourselves
        )["input_ids"]

    return Vocabulary(file, len(tokenizer), encode, tokenizer.get_vocab().get)
