"""Tokenizer files for the small models, in the same formats as those of the large models.

Both tokenizers are learned only from the training captions and are deterministic.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ttm_jax.files import write_atomic, write_json, write_text
from ttm_jax.inputs.clean_text import canonical_siglip

START, END = "<|startoftext|>", "<|endoftext|>"
_SPACE = "\u2581"  # as sentencepiece writes it


def write_siglip_tokenizer(
    folder: Path, captions: Iterable[str], length: int, vocabulary: int
) -> None:
    """Write a sentencepiece model with SigLIP's conventions: `</s>` = 1 ends and pads.

    Its pieces are counted here: what sentencepiece learns from the same captions depends on its
    version (118 pieces with 0.2.3, 211 with 0.2.2).
    """
    from sentencepiece import sentencepiece_model_pb2

    proto: Any = sentencepiece_model_pb2  # its classes are made at run time
    kinds, model = proto.ModelProto.SentencePiece, proto.ModelProto()
    special = (("<pad>", kinds.CONTROL), ("</s>", kinds.CONTROL), ("<unk>", kinds.UNKNOWN))
    for piece, kind in special:
        model.pieces.add(piece=piece, score=0.0, type=kind)
    for piece, score in count_pieces(captions, vocabulary - len(special)):
        model.pieces.add(piece=piece, score=score, type=kinds.NORMAL)
    spec = model.trainer_spec
    spec.model_type, spec.vocab_size = proto.TrainerSpec.UNIGRAM, len(model.pieces)
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = 0, 1, 2, -1
    spec.pad_piece, spec.eos_piece = "<pad>", "</s>"
    model.normalizer_spec.name = "identity"
    content = model.SerializeToString(deterministic=True)
    write_atomic(folder / "spiece.model", lambda file: file.write(content))
    settings = {
        "tokenizer_class": "SiglipTokenizer",
        "model_max_length": length,
        "eos_token": "</s>",
        "pad_token": "</s>",
        "unk_token": "<unk>",
    }
    write_json(folder / "tokenizer_config.json", settings)


def count_pieces(captions: Iterable[str], limit: int) -> list[tuple[str, float]]:
    """Letters and the most frequent words, with their log-frequencies; ties alphabetically.

    A known word is one piece. Letters cost more than any word, so they spell only what is unknown.
    """
    words = Counter(word for text in captions for word in canonical_siglip(text).split())
    letters = sorted({_SPACE, *"".join(words)})
    common = sorted(words, key=lambda word: (-words[word], word))[: limit - len(letters)]
    total = sum(words.values())
    scores = [(_SPACE + word, math.log(words[word] / total)) for word in common]
    rarest = min(score for _, score in scores)
    return scores + [(letter, rarest - 1) for letter in letters]


def write_clip_tokenizer(folder: Path, captions: Iterable[str], length: int, merges: int) -> None:
    """Learn a byte-pair encoding and write it in OpenAI's layout."""
    write_clip_bpe(folder, learn_merges(captions, merges), length)


def write_clip_bpe(folder: Path, pairs: Sequence[tuple[str, str]], length: int) -> None:
    """Write byte pairs in OpenAI's layout: bytes, word-final bytes, merges, special tokens."""
    units = list(_byte_letters().values())
    tokens = [*units, *(unit + "</w>" for unit in units), *("".join(pair) for pair in pairs)]
    ids = {token: number for number, token in enumerate([*tokens, START, END])}
    write_text(folder / "vocab.json", json.dumps(ids, ensure_ascii=False))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in pairs)]
    write_text(folder / "merges.txt", "\n".join(lines) + "\n")
    settings = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": length,
        "bos_token": START,
        "eos_token": END,
        "pad_token": END,
        "unk_token": END,
    }
    write_json(folder / "tokenizer_config.json", settings)


def learn_merges(captions: Iterable[str], count: int) -> list[tuple[str, str]]:
    """Repeatedly merge the most frequent pair of neighbours; ties are broken alphabetically."""
    words = Counter(word for caption in captions for word in caption.replace(",", " ").split())
    spelled = {word: [*word[:-1], word[-1] + "</w>"] for word in words}
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in spelled.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        spelled = {word: _merged(parts, best) for word, parts in spelled.items()}
    return merges


def _merged(parts: list[str], pair: tuple[str, str]) -> list[str]:
    result: list[str] = []
    for part in parts:
        if result and (result[-1], part) == pair:
            result[-1] += part
        else:
            result.append(part)
    return result


def _byte_letters() -> dict[int, str]:
    """A printable character for every byte: itself if printable, else one from U+0100 on.

    The order (printable ones first) is part of the format.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in letters]
    return letters | {byte: chr(256 + number) for number, byte in enumerate(others)}
