"""CLIP's real vocabulary, from its merges in tests/assets, in the files of a checkpoint."""

import gzip
import json
from functools import cache
from pathlib import Path

from paths import TESTS

FILE = TESTS / "assets" / "clip_bpe" / "bpe_simple_vocab_16e6.txt.gz"


@cache
def clip_merges() -> tuple[tuple[str, str], ...]:
    """CLIP uses the first 48,894 merges of the file, after its title line."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")[1 : 49152 - 256 - 2 + 1]
    return tuple(tuple(line.split()) for line in lines)


@cache
def byte_symbols() -> tuple[str, ...]:
    """The printable character that stands for each byte in GPT-2's and CLIP's vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return tuple(chr(b if b in printable else next(others)) for b in range(256))


@cache
def clip_vocabulary() -> dict[str, int]:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = printable + [b for b in range(256) if b not in printable]
    symbols = [byte_symbols()[b] for b in order]
    tokens = symbols + [f"{s}</w>" for s in symbols] + ["".join(m) for m in clip_merges()]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    return {token: i for i, token in enumerate(tokens)}


def write_clip_files(folder: Path) -> None:
    """vocab.json and merges.txt, as in openai/clip-vit-base-patch32."""
    (folder / "vocab.json").write_text(json.dumps(clip_vocabulary()), "utf-8")
    merges = "\n".join(" ".join(m) for m in clip_merges())
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", "utf-8")
