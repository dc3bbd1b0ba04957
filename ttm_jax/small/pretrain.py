"""Pretraining the small models on the procedural world: ordinary contrastive training.

The training split only: nothing of the benchmarks is seen, neither pictures nor captions.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ttm_jax.data.world import TrainingText, training_captions, training_pairs
from ttm_jax.files import write_json
from ttm_jax.losses import CONTRASTIVE
from ttm_jax.models.clip import CLIP, CLIPConfig
from ttm_jax.models.siglip import SigLIP, SigLIPConfig
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.preprocess import ImageProcessor, normalise
from ttm_jax.small.tokenizers import write_clip_tokenizer, write_siglip_tokenizer
from ttm_jax.tokenize import CaptionTokenizer, load_tokenizer
from ttm_jax.weights import huggingface


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights."""

    family: Literal["siglip", "clip"]
    seed: int = 0
    width: int = 96
    depth: int = 4
    heads: int = 3
    image_size: int = 48
    patch_size: int = 8
    text_length: int = 24
    scenes: int = 30_000
    rewordings: int = 2
    steps: int = 4000
    batch: int = 64
    lr: float = 2e-3
    warmup: int = 200
    weight_decay: float = 0.05
    text: TrainingText = field(default_factory=TrainingText)


RECIPES = {family: Recipe(family) for family in ("siglip", "clip")}


def write_folder_files(folder: Path, recipe: Recipe, captions: list[str]) -> CaptionTokenizer:
    """Tokenizer and image settings, as a hub checkpoint has them."""
    folder.mkdir(parents=True, exist_ok=True)
    size = {"height": recipe.image_size, "width": recipe.image_size}
    common: dict[str, Any] = {"do_resize": True, "resample": 3, "do_rescale": True}
    common |= {"rescale_factor": 1 / 255, "do_normalize": True, "do_convert_rgb": True}
    if recipe.family == "siglip":
        write_siglip_tokenizer(folder, captions, recipe.text_length, vocabulary=256)
        common |= {
            "image_processor_type": "SiglipImageProcessor",
            "processor_class": "SiglipProcessor",
            "size": size,
        }
    else:
        write_clip_tokenizer(folder, captions, recipe.text_length, merges=512)
        common |= {
            "image_processor_type": "CLIPImageProcessor",
            "processor_class": "CLIPProcessor",
            "size": {"shortest_edge": recipe.image_size},
            "do_center_crop": True,
            "crop_size": size,
        }
    processor = ImageProcessor.for_family(recipe.family, recipe.image_size)
    common |= {"image_mean": list(processor.mean), "image_std": list(processor.std)}
    write_json(folder / "preprocessor_config.json", common)
    return load_tokenizer(folder, recipe.family, recipe.text_length)


def make_module(recipe: Recipe, tokenizer: CaptionTokenizer) -> SigLIP | CLIP:
    tower = TowerConfig(recipe.width, recipe.depth, recipe.heads, 4 * recipe.width)
    sizes = (recipe.image_size, recipe.patch_size)
    words = (tokenizer.vocab_size, recipe.text_length, recipe.width)
    if recipe.family == "siglip":
        return SigLIP(SigLIPConfig(*sizes, tower, tower, *words))
    tower = replace(tower, activation="quick_gelu", norm_eps=1e-5)
    text = replace(tower, causal=True)
    return CLIP(CLIPConfig(*sizes, tower, text, *words, tokenizer.eos_id))


def pretrain(
    recipe: Recipe, folder: Path, on_step: Callable[[int, float], None] = lambda step, loss: None
) -> dict[str, Any]:
    """Train by the recipe and write a Hugging Face folder; returns what is worth recording."""
    began = time.perf_counter()
    images, _ = training_pairs(recipe.seed, recipe.scenes, recipe.text, recipe.image_size)
    captions = [
        training_captions(recipe.seed, recipe.scenes, recipe.text, draw=draw)
        for draw in range(recipe.rewordings)
    ]
    tokenizer = write_folder_files(folder, recipe, [c for draw in captions for c in draw])
    tokens = np.stack([tokenizer(draw).ids for draw in captions])
    module = make_module(recipe, tokenizer)
    params, losses = fit(recipe, module, images, tokens, on_step)
    huggingface.save(folder, module.config, params, extra_files_from=folder)
    record = {
        "recipe": asdict(recipe),
        "parameters": sum(x.size for x in jax.tree.leaves(params)),
        "final_loss": float(np.mean(losses[-100:])),
        "minutes": round((time.perf_counter() - began) / 60, 1),
    }
    write_json(folder / "recipe.json", record)
    return record


def fit(
    recipe: Recipe,
    module: SigLIP | CLIP,
    images: np.ndarray,
    tokens: np.ndarray,
    on_step: Callable[[int, float], None],
) -> tuple[Any, list[float]]:
    """AdamW with warm-up and a cosine; every epoch in a new order and another wording."""
    sample = jnp.zeros((1, recipe.image_size, recipe.image_size, 3)), tokens[0, :1]
    params = module.init(jax.random.key(recipe.seed), *sample)["params"]
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, recipe.lr, recipe.warmup, recipe.steps, 0.02 * recipe.lr
    )
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, b2=0.98, weight_decay=recipe.weight_decay),
    )
    state = (params, optimizer.init(params))
    processor = ImageProcessor.for_family(recipe.family, recipe.image_size)
    rng = np.random.default_rng(recipe.seed)
    losses: list[float] = []
    order = np.zeros(0, np.int64)
    for step in range(recipe.steps):
        if len(order) < recipe.batch:
            order, wording = rng.permutation(recipe.scenes), int(rng.integers(len(tokens)))
        rows, order = order[: recipe.batch], order[recipe.batch :]
        state, loss = _step(
            module, recipe.family, processor, optimizer, state, images[rows], tokens[wording, rows]
        )
        losses.append(float(loss))
        on_step(step + 1, losses[-1])
    return jax.tree.map(np.asarray, state[0]), losses


@partial(jax.jit, static_argnums=(0, 1, 2, 3), donate_argnums=4)
def _step(
    module: SigLIP | CLIP,
    family: str,
    processor: ImageProcessor,
    optimizer: optax.GradientTransformation,
    state: tuple[Any, Any],
    pixels: Array,
    ids: Array,
) -> tuple[tuple[Any, Any], Float[Array, ""]]:
    apply: Any = module.apply

    def loss(params: Any) -> Float[Array, ""]:
        inputs = normalise(pixels, processor.mean, processor.std), ids
        return CONTRASTIVE[family](apply({"params": params}, *inputs), jnp.ones(len(ids), bool))

    value, gradient = jax.value_and_grad(loss)(state[0])
    with jax.numpy_dtype_promotion("standard"):
        updates, moments = optimizer.update(gradient, state[1], state[0])
    return (optax.apply_updates(state[0], updates), moments), value
