"""A matrix of logits for people, and as a file."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from ttm_jax.files import write_atomic


def print_logits(
    scores: Float32[np.ndarray, "image text"],
    images: Sequence[Path],
    captions: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """A row an image; the best caption of each row is marked."""
    names = [str(path) for path in images]
    if as_json:
        print(json.dumps({"images": names, "captions": captions, "logits": scores.tolist()}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="logits (the best caption of each image in bold)")
    table.add_column("image")
    for caption in captions:
        table.add_column(caption, justify="right", overflow="fold")
    for name, row in zip(names, scores, strict=True):
        best = int(row.argmax())
        cells = [f"[bold]{v:.4f}[/bold]" if i == best else f"{v:.4f}" for i, v in enumerate(row)]
        table.add_row(name, *cells)
    Console().print(table)


def write_logits(
    path: Path,
    scores: Float32[np.ndarray, "image text"],
    images: Sequence[Path],
    captions: Sequence[str],
) -> None:
    names = np.array([str(image) for image in images])
    write_atomic(path, partial(np.savez, scores=scores, images=names, captions=np.array(captions)))
