"""Scoring speed compared with transformers and PyTorch: images/s, captions/s, whole datasets.

    python benchmarks/scoring.py                    # SigLIP-B16 and CLIP-B32, minutes on 2 cores
    python benchmarks/scoring.py --groups 100 --models clip-b32
    python benchmarks/scoring.py --quick            # tiny models: does it run?

Two kinds of data. 2x2: every image and caption is distinct, as in Winoground. 1x4: an image with
four captions, and the same four captions are shared by four images, as in WhatsUp. PyTorch encodes
the entries of the groups batch by batch under `inference_mode`, with CLIP's captions padded to the
longest of the batch; ttm_jax is called as `model.score_arrays`. Both start from pixels and token
ids in memory, use float32, and must agree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import tyro
from _models import NAMES, Name, Sizes, captions, torch_model, weight_writer
from _results import Results
from _sides import Parts, Side, machine, make_console, take_turns

Shape = Literal["2x2", "1x4"]
SHAPES: dict[Shape, tuple[int, int]] = {"2x2": (2, 2), "1x4": (1, 4)}
SHARED = 4  # images that share their captions in the 1x4 data
BATCH = 16  # images, or captions, that PyTorch encodes at once
AGREE = 1e-3  # tolerance between the logits of the two sides, at a scale of 100


@dataclass(frozen=True)
class Data:
    """Recipe for the arrays: each process makes its own from the same seed."""

    sizes: Sizes
    groups: int

    def arrays(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Normalised pixels [N, S, S, 3] and ids [M, L], ordered by group."""
        rng = np.random.default_rng(0)
        images, texts = SHAPES[shape]
        size = self.sizes.image_size
        pixels = rng.uniform(-1, 1, (self.groups * images, size, size, 3)).astype(np.float32)
        if shape == "2x2":
            return pixels, captions(self.sizes, self.groups * texts, rng)
        distinct = captions(self.sizes, -(-self.groups // SHARED) * texts, rng)
        of_group = np.arange(self.groups)[:, None] // SHARED * texts + np.arange(texts)
        return pixels, distinct[of_group.reshape(-1)]


def within_groups(logits: np.ndarray, shape: Shape) -> np.ndarray:
    """Extract scores[group, image, text] from the logits of all images and captions."""
    images, texts = SHAPES[shape]
    by_group = logits.reshape(-1, images, logits.shape[1] // texts, texts)
    every = np.arange(len(by_group))
    return by_group[every, :, every]


def jax_parts(folder: str, data: Data) -> Parts:
    import jax
    import jax.numpy as jnp

    import ttm_jax
    from ttm_jax.scorers.contrastive.model import default_batch_size, encode

    model = ttm_jax.load_model(folder)
    # As the package does it: on the CPU, leaves are read where they were loaded.
    device = jax.devices()[0]
    variables = {"params": jax.tree.map(partial(jax.device_put, device=device), model.params)}
    pixels, ids = data.arrays("2x2")
    pools = {"image": jnp.asarray(pixels), "text": jnp.asarray(model.shorten(ids))}

    def tower(side: Literal["image", "text"]) -> None:
        size = default_batch_size()
        jax.block_until_ready(encode(model, side, variables, pools[side], size))

    def whole(shape: Shape) -> np.ndarray:
        return within_groups(model.score_arrays(*data.arrays(shape)), shape)

    return {
        "images": partial(tower, "image"),
        "captions": partial(tower, "text"),
        **{shape: partial(whole, shape) for shape in SHAPES},
    }


def torch_parts(folder: str, data: Data) -> Parts:
    import torch

    model = torch_model(folder)
    eos = data.sizes.eos

    def encode(rows: np.ndarray, call: Callable[[Any], Any]) -> Any:
        parts = [call(torch.from_numpy(rows[i : i + BATCH])) for i in range(0, len(rows), BATCH)]
        found = torch.cat(parts)
        return found / found.norm(dim=-1, keepdim=True)

    def image(pixels: Any) -> Any:
        return model.get_image_features(pixels.permute(0, 3, 1, 2)).pooler_output

    def text(ids: Any) -> Any:
        if eos is not None:  # like the tokenizer with `padding=True`
            ids = ids[:, : int((ids == eos).int().argmax(dim=1).max()) + 1]
        return model.get_text_features(ids.long()).pooler_output

    @torch.inference_mode()
    def whole(shape: Shape) -> np.ndarray:
        pixels, ids = data.arrays(shape)
        logits = encode(pixels, image) @ encode(ids, text).T * model.logit_scale.exp()
        logits = logits if eos is not None else logits + model.logit_bias
        return within_groups(logits.numpy(), shape)

    pixels, ids = data.arrays("2x2")

    @torch.inference_mode()
    def tower(rows: np.ndarray, call: Callable[[Any], Any]) -> None:
        encode(rows, call)

    return {
        "images": partial(tower, pixels, image),
        "captions": partial(tower, ids, text),
        **{shape: partial(whole, shape) for shape in SHAPES},
    }


def measure(name: Name, groups: int, repeats: int, tiny: bool, results: Results) -> None:
    """Add the rows of one model."""
    with TemporaryDirectory() as folder:
        writer = Side("weights", weight_writer, name, tiny, folder)
        data = Data(writer.run("write")[1], groups)
        writer.close()
        sides = [
            Side("ttm_jax", jax_parts, folder, data, huge_pages=True),
            Side("PyTorch", torch_parts, folder, data),
        ]
        label = f"{name} (tiny)" if tiny else name
        for part in ("images", "captions", *SHAPES):
            _, found = zip(*(side.run(part) for side in sides), strict=True)
            check_agreement(label, part, found)
            ours, theirs = take_turns(sides, part, repeats)
            count, unit = (groups, "groups/s") if part in SHAPES else (2 * groups, f"{part}/s")
            results.turns(label, f"{part}: {unit}", ours, theirs, count)
        results.values(label, "peak memory, GB", *(side.peak_gb for side in sides))
        for side in sides:
            side.close()


def check_agreement(label: str, part: str, results: tuple[Any, ...]) -> None:
    if results[0] is None:
        return
    difference = float(np.abs(results[0] - results[1]).max())
    if difference > AGREE:
        raise SystemExit(f"{label}, {part}: the scores of the two sides differ by {difference}")


def main(
    models: tuple[Name, ...] = NAMES,
    groups: int = 16,
    repeats: int = 5,
    quick: bool = False,
    json: Path | None = None,
) -> None:
    """Time both sides in alternating turns.

    Args:
        models: siglip-b16, clip-b32, with random weights.
        groups: groups of each kind of data; 2x2 has twice as many images and captions.
        repeats: number of turns; medians are shown.
        quick: use tiny models, few groups and two turns.
        json: file to write the rows to as well.
    """
    groups, repeats = (min(groups, 6), min(repeats, 2)) if quick else (groups, repeats)
    results = Results("scoring")
    make_console().print(machine())
    for name in models:
        measure(name, groups, repeats, quick, results)
    results.show("Scoring")
    results.save(json)


if __name__ == "__main__":
    tyro.cli(main)
