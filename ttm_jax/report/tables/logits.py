"""The best captions of every image, for people and as a file."""

import csv
import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32

from ttm_jax.errors import InputError
from ttm_jax.files import write_atomic, write_json, write_text
from ttm_jax.plain_text import one_line

FORMATS = (".npz", ".csv", ".json")
Kind = Literal["siglip", "clip", "vqa"]
_MEANING = {
    "siglip": "probability that the caption fits, each on its own (sigmoid of the logit)",
    "clip": "probability among these captions (softmax of the logits)",
    "vqa": "probability that the model answers yes",
}
_NARROWEST = 16  # characters for the name of an image


def probabilities(
    scores: Float32[np.ndarray, "image text"], kind: Kind
) -> Float32[np.ndarray, "image text"]:
    """What the model's own loss or answer makes of its scores."""
    if kind == "vqa":
        return scores
    if kind == "siglip":
        return (0.5 * (1 + np.tanh(0.5 * scores))).astype(np.float32)  # sigmoid, never overflows
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


def print_best(
    scores: Float32[np.ndarray, "image text"],
    images: Sequence[Path],
    captions: Sequence[str],
    kind: Kind,
    top: int,
) -> None:
    """One row per image: its `top` captions by number, the best first; captions below."""
    shares = probabilities(scores, kind)
    top = min(top, len(captions))
    digits = len(str(len(captions)))
    cell = digits + 10  # "*12   99.9 %"
    names = [one_line(str(path)) for path in images]
    if sys.stdout.isatty():  # a file or a pipe has no edge
        room = shutil.get_terminal_size().columns - top * (cell + 2)
        names = _fitting(names, max(_NARROWEST, room))
    width = max(len("image"), *map(len, names))
    heads = ["best", *(f"no. {rank}" for rank in range(2, top + 1))]
    print("  ".join([f"{'image':{width}}", *(f"{head:>{cell}}" for head in heads)]))
    for name, row, row_shares in zip(names, scores, shares, strict=True):
        order = np.argsort(-row, kind="stable")[:top]
        cells = [f"{i + 1}  {_percent(float(row_shares[i]))}" for i in order]
        cells = [f"*{cells[0]}".rjust(cell), *(text.rjust(cell) for text in cells[1:])]
        print("  ".join([f"{name:{width}}", *cells]))
    print()
    for number, caption in enumerate(captions, start=1):
        print(f"{number:{digits}}  {one_line(caption)}")
    print(f"\n* the best caption\n{_MEANING[kind]}")


def print_logits(
    scores: Float32[np.ndarray, "image text"], images: Sequence[Path], captions: Sequence[str]
) -> None:
    """One JSON object."""
    names = [str(path) for path in images]
    print(json.dumps({"images": names, "captions": captions, "logits": scores.tolist()}))


def check_format(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"--out {path}: expected a name that ends in {', '.join(FORMATS)}")


def write_logits(
    path: Path,
    scores: Float32[np.ndarray, "image text"],
    images: Sequence[Path],
    captions: Sequence[str],
    kind: Kind,
    truth: Sequence[int] | None = None,
    *,
    listed: bool = True,
) -> None:
    """The whole matrix; the suffix says how.

    For `ttm evaluate`, an .npz also holds the caption of each image if that is known, or that the
    images were not `listed` by the user, in which case their order means nothing.
    """
    names = [str(image) for image in images]
    shares = probabilities(scores, kind)
    if path.suffix.lower() == ".json":
        content = {"images": names, "captions": list(captions), "logits": scores.tolist()}
        write_json(path, {**content, "probabilities": shares.tolist()})
    elif path.suffix.lower() == ".csv":
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("image", "rank", "caption", "logit", "probability"))
        for name, row, row_shares in zip(names, scores, shares, strict=True):
            for rank, i in enumerate(np.argsort(-row, kind="stable"), start=1):
                lines.writerow((name, rank, captions[i], f"{row[i]:.6g}", f"{row_shares[i]:.6g}"))
        write_text(path, text.getvalue())
    else:
        arrays: dict[str, Any] = {"scores": scores, "images": np.array(names)}
        arrays["captions"] = np.array(list(captions))
        if truth is not None:
            arrays["truth"] = np.array(truth)
        elif not listed:
            arrays["unpaired"] = np.array(True)
        write_atomic(path, partial(np.savez, **arrays))


def _percent(share: float) -> str:
    return f"{100 * share:5.1f} %"


def _fitting(names: Sequence[str], room: int) -> list[str]:
    """Long names without the folder, if it is the same, and then only their ends: they differ."""
    if max(map(len, names)) > room:
        folders = {os.path.dirname(name) for name in names}
        if len(folders) == 1:
            names = [os.path.basename(name) for name in names]
    return [name if len(name) <= room else f"...{name[-(room - 3) :]}" for name in names]
