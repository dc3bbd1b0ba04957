"""A SmolVLM with a few thousand random parameters and its own tokenizer, and data for it."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from flax.traverse_util import unflatten_dict
from tiny import random_params

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.inputs.vlm_prompt import ask
from ttm_jax.inputs.vqa_prompts import PAPER_PROMPT
from ttm_jax.models.llama import DecoderConfig
from ttm_jax.models.smolvlm import SmolVLMConfig
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.scorers.vqa.model import VQAModel
from ttm_jax.small.vlm_files import write_vlm_files
from ttm_jax.weights import idefics3

NAMES = ("cat", "dog", "red cup", "small tree", "very old blue house")
TILE, LONGEST = 16, 32


def captions(count: int) -> list[str]:
    """Captions of different lengths."""
    return [f"a {NAMES[i % len(NAMES)]} beside number {i}" for i in range(count)]


def write_tiny_vlm(folder: Path, seed: int = 0) -> Path:
    """A Hugging Face folder: images of 32 px in tiles of 16, four tokens per tile."""
    texts = [
        f"User:{question}\nAssistant: {answer}"
        for question in ask(PAPER_PROMPT, captions(40))
        for answer in ("Yes", "No")
    ]
    files = folder.with_name(folder.name + "_files")
    image = write_vlm_files(
        files,
        texts,
        vocabulary=330,
        image_size=TILE,
        tile_tokens=4,
        splitting=True,
        longest=LONGEST,
    )
    text = DecoderConfig(
        width=24,
        depth=2,
        heads=4,
        kv_heads=2,
        head_dim=8,
        mlp_dim=32,
        vocab_size=image + 8,
        max_positions=256,
    )
    config = SmolVLMConfig(TILE, 4, 2, TowerConfig(16, 2, 2, 24), text, image)
    shapes = unflatten_dict(
        {
            path: jax.ShapeDtypeStruct(shape, np.float32)
            for path, shape in idefics3.expected_shapes(config).items()
        },
        sep="/",
    )
    idefics3.save(folder, config, random_params(shapes, seed), extra_files_from=files)
    return folder


def tiny_vlm(folder: Path, splitting: bool = False) -> VQAModel:
    model = VQAModel.from_folder(folder, str(folder))
    return model.with_settings(replace(model.settings, splitting=splitting))


def picture(width: int, height: int, rng: np.random.Generator) -> np.ndarray:
    coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((-(-height // 4), -(-width // 4), 1), np.uint8))[:height, :width]


def vlm_dataset(
    groups: int = 6, images: int = 2, texts: int = 2, *, seed: int = 0, sizes=((32, 32),)
) -> GroupedDataset:
    """Random images of the given sizes, each in one group."""
    rng = np.random.default_rng(seed)
    words = captions(groups * texts)
    truth = tuple(range(images)) if images <= texts else None
    made = [
        Group(
            str(g),
            tuple(picture(*sizes[(g + i) % len(sizes)], rng) for i in range(images)),
            tuple(words[g * texts : (g + 1) * texts]),
            truth,
        )
        for g in range(groups)
    ]
    return GroupedDataset.from_groups(made)
