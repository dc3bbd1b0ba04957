"""The small SmolVLM before training: its files, sizes and initial parameters."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from ttm_jax.inputs.vlm_images import TileProcessor
from ttm_jax.inputs.vlm_prompt import PromptTokenizer, ask
from ttm_jax.inputs.vqa_prompts import PAPER_PROMPT
from ttm_jax.load import SMALL
from ttm_jax.models.llama import DecoderConfig
from ttm_jax.models.smolvlm import SmolVLMConfig
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.scorers.vqa.model import VQAModel
from ttm_jax.small.vlm_files import write_vlm_files
from ttm_jax.training.sharding import round_up
from ttm_jax.training.trainable import Flat
from ttm_jax.weights import huggingface, idefics3

_TOWER = ("img/embedding/", "img/pos_embedding", "img/Transformer/")


@dataclass(frozen=True)
class VLMRecipe:
    """Everything that determines the weights."""

    seed: int = 0
    image_tower: str | None = "small-siglip"
    """A SigLIP (the one that ships, or a folder) whose image tower is used and frozen. If None, a
    randomly initialised tower of the following four sizes is used."""
    image_size: int = 48
    patch_size: int = 8
    vision_width: int = 64
    vision_depth: int = 3
    shuffle: int = 2
    width: int = 96
    depth: int = 4
    heads: int = 6
    kv_heads: int = 2
    vocabulary: int = 640
    scenes: int = 8000
    steps: int = 500
    batch: int = 32
    questions: int = 4
    lr: float = 1e-3
    warmup: int = 50
    weight_decay: float = 0.05


@dataclass(frozen=True)
class _Tower:
    image_size: int
    patch_size: int
    config: TowerConfig
    params: Flat  # empty: random initialisation


def untrained(recipe: VLMRecipe, folder: Path, texts: list[str]) -> VQAModel:
    """Write tokenizer and processor files to `folder` and create a matching model."""
    tower = _tower(recipe)
    tile_tokens = (tower.image_size // tower.patch_size // recipe.shuffle) ** 2
    questions = ask(PAPER_PROMPT, texts)
    image_token_id = write_vlm_files(
        folder,
        [f"User:{q}\nAssistant: {answer}" for q in questions for answer in ("Yes", "No")],
        vocabulary=recipe.vocabulary,
        image_size=tower.image_size,
        tile_tokens=tile_tokens,
    )
    prompt = PromptTokenizer.from_folder(folder, tile_tokens)
    text = DecoderConfig(
        width=recipe.width,
        depth=recipe.depth,
        heads=recipe.heads,
        kv_heads=recipe.kv_heads,
        head_dim=recipe.width // recipe.heads,
        mlp_dim=8 * recipe.width // 3,
        vocab_size=round_up(prompt.vocabulary.get_vocab_size(), 16),
        max_positions=256,
    )
    config = SmolVLMConfig(
        tower.image_size, tower.patch_size, recipe.shuffle, tower.config, text, image_token_id
    )
    params = {**initial_params(config, recipe.seed), **tower.params}
    tiles = TileProcessor.from_folder(folder)
    return VQAModel(config, unflatten_dict(params, sep="/"), tiles, prompt)


def is_locked(recipe: VLMRecipe, path: str) -> bool:
    """Whether this parameter is frozen."""
    return recipe.image_tower is not None and path.startswith(_TOWER)


def _tower(recipe: VLMRecipe) -> _Tower:
    if recipe.image_tower is None:
        width = recipe.vision_width
        config = TowerConfig(width, recipe.vision_depth, width // 16, 4 * width)
        return _Tower(recipe.image_size, recipe.patch_size, config, {})
    found = huggingface.load(SMALL.get(recipe.image_tower, Path(recipe.image_tower)))
    params: dict[str, Any] = flatten_dict(found.params, sep="/")
    kept = {path: x for path, x in params.items() if path.startswith(_TOWER)}
    return _Tower(found.config.image_size, found.config.patch_size, found.config.vision, kept)


def initial_params(config: SmolVLMConfig, seed: int) -> dict[str, np.ndarray]:
    """Unit-gain initialisation with numpy, which needs no compilation and is therefore faster."""
    rng = np.random.default_rng(seed)
    params = {}
    for path, shape in sorted(idefics3.expected_shapes(config).items()):
        name, first = path.rsplit("/", 1)[-1], int("block/" in path)  # axis 0 is the layer axis
        many = path.endswith("/out/kernel") or path == "img/embedding/kernel"
        inputs = shape[first:-1] if many else shape[first : first + 1]
        if name in ("scale", "bias"):
            params[path] = np.full(shape, float(name == "scale"), np.float32)
        else:
            scale = float(np.prod(inputs)) ** -0.5 if name == "kernel" else 0.1  # embeddings
            params[path] = (scale * rng.standard_normal(shape)).astype(np.float32)
    return params
