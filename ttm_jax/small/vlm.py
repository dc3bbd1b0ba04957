"""A small SmolVLM that is made on the spot: trained for a minute on the procedural world.

It is asked about pictures of the training split, with captions that are true of them, captions
whose attributes are exchanged or whose relation is turned around, and captions of other pictures.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import jax
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array, Float, Int32

from ttm_jax import sharding
from ttm_jax.data.world import TrainingText, training_captions, training_pairs
from ttm_jax.files import write_json
from ttm_jax.models.llama import DecoderConfig
from ttm_jax.models.smolvlm import SmolVLMConfig
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.scorers.task import Examples
from ttm_jax.scorers.vqa import QUESTION, VQAModel
from ttm_jax.scorers.vqa_inputs import Pools
from ttm_jax.scorers.vqa_objective import VQAObjective
from ttm_jax.small.vlm_files import write_vlm_files
from ttm_jax.trainable import Flat
from ttm_jax.vlm_images import TileProcessor
from ttm_jax.vlm_prompt import PromptTokenizer, ask
from ttm_jax.weights import idefics3

TRUE = TrainingText(color=1.0, omit=0.2, wrong=0.0, misbound=0.0, misplaced=0.0)
FALSE = TrainingText(color=1.0, omit=0.2, wrong=0.0, misbound=1.0, misplaced=1.0)


@dataclass(frozen=True)
class VLMRecipe:
    """Everything that decides the weights."""

    seed: int = 0
    image_size: int = 48
    patch_size: int = 8
    shuffle: int = 2
    vision_width: int = 64
    vision_depth: int = 3
    width: int = 96
    depth: int = 3
    heads: int = 6
    kv_heads: int = 2
    vocabulary: int = 640
    scenes: int = 6000
    steps: int = 600
    batch: int = 32
    questions: int = 3
    lr: float = 2e-3
    warmup: int = 50
    weight_decay: float = 0.05


RECIPE = VLMRecipe()


def small_vlm(
    folder: Path,
    recipe: VLMRecipe = RECIPE,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Path:
    """The folder, in which the model is made if it is not there yet."""
    folder = Path(folder)
    if (folder / "config.json").is_file():
        return folder
    began = time.perf_counter()
    images, texts, choices = training_data(recipe)
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex[:8]}")
    try:
        model = _untrained(recipe, temporary / "files", texts)
        pools, _ = model.read(images, texts)
        params, losses = fit(recipe, model, pools, choices, on_step)
        config = model.config
        idefics3.save(temporary / "model", config, params, extra_files_from=temporary / "files")
        record = {
            "recipe": asdict(recipe),
            "parameters": sum(x.size for x in jax.tree.leaves(params)),
            "final_loss": float(np.mean(losses[-50:])),
            "seconds": round(time.perf_counter() - began, 1),
        }
        write_json(temporary / "model" / "recipe.json", record)
        os.replace(temporary / "model", folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def training_data(
    recipe: VLMRecipe,
) -> tuple[np.ndarray, list[str], Int32[np.ndarray, "scene 2"]]:
    """Pictures, distinct captions, and for each picture a true one and a false one among them.

    A false caption has the words of the true one in another order; where exchanging changes
    nothing, that of another picture takes its place (-1).
    """
    images, _ = training_pairs(recipe.seed, recipe.scenes, TRUE, recipe.image_size)
    true, false = (training_captions(recipe.seed, recipe.scenes, text) for text in (TRUE, FALSE))
    texts = sorted({*true, *false})
    place = {text: number for number, text in enumerate(texts)}
    choices = [[place[a], place[b] if a != b else -1] for a, b in zip(true, false, strict=True)]
    return images, texts, np.asarray(choices, np.int32)


def _untrained(recipe: VLMRecipe, folder: Path, texts: list[str]) -> VQAModel:
    questions = ask(QUESTION, texts)
    answered = [f"User:{q}\nAssistant: {a}" for q in questions for a in ("Yes", "No")]
    tile_tokens = (recipe.image_size // recipe.patch_size // recipe.shuffle) ** 2
    image_token_id = write_vlm_files(
        folder,
        answered,
        vocabulary=recipe.vocabulary,
        image_size=recipe.image_size,
        tile_tokens=tile_tokens,
    )
    prompt = PromptTokenizer.from_folder(folder, tile_tokens)
    config = SmolVLMConfig(
        image_size=recipe.image_size,
        patch_size=recipe.patch_size,
        shuffle=recipe.shuffle,
        vision=TowerConfig(
            recipe.vision_width,
            recipe.vision_depth,
            recipe.vision_width // 16,
            4 * recipe.vision_width,
        ),
        text=DecoderConfig(
            width=recipe.width,
            depth=recipe.depth,
            heads=recipe.heads,
            kv_heads=recipe.kv_heads,
            head_dim=recipe.width // recipe.heads,
            mlp_dim=8 * recipe.width // 3,
            vocab_size=sharding.round_up(prompt.vocabulary.get_vocab_size(), 16),
            max_positions=256,
        ),
        image_token_id=image_token_id,
    )
    params = unflatten_dict(initial_params(config, recipe.seed), sep="/")
    return VQAModel(config, params, TileProcessor.from_folder(folder), prompt)


def initial_params(config: SmolVLMConfig, seed: int) -> dict[str, np.ndarray]:
    """Unit gain everywhere; numpy has no initialiser to compile, which would take longer."""
    rng = np.random.default_rng(seed)
    params = {}
    for path, shape in sorted(idefics3.expected_shapes(config).items()):
        name, stacked = path.rsplit("/", 1)[1], "block/" in path
        inputs = shape[stacked:-1] if path.endswith("/out/kernel") else shape[stacked : stacked + 1]
        if path == "img/embedding/kernel":
            inputs = shape[:-1]
        if name in ("scale", "bias"):
            params[path] = np.full(shape, float(name == "scale"), np.float32)
        else:
            scale = np.prod(inputs) ** -0.5 if name == "kernel" else 0.1  # embeddings
            params[path] = (scale * rng.standard_normal(shape)).astype(np.float32)
    return params


def fit(
    recipe: VLMRecipe,
    model: VQAModel,
    pools: Pools,
    choices: Int32[np.ndarray, "scene 2"],
    on_step: Callable[[int, float], None],
) -> tuple[Any, list[float]]:
    """AdamW with warm-up and a cosine on the objective that Test-Time Matching has, too."""
    mesh = sharding.make_mesh(jax.devices()[:1])
    objective = VQAObjective(model.vqa(mesh), recipe.questions)
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, recipe.lr, recipe.warmup, recipe.steps, 0.02 * recipe.lr
    )
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, b2=0.98, weight_decay=recipe.weight_decay),
    )
    data = sharding.put(pools, sharding.replicated(mesh))
    params = flatten_dict(model.params, sep="/")
    # Placed as the step will return it: otherwise the second step would be compiled once more.
    state = sharding.put((params, optimizer.init(params)), sharding.replicated(mesh))
    rng = np.random.default_rng(recipe.seed)
    losses: list[float] = []
    for step in range(recipe.steps):
        batch = draw_batch(rng, choices, recipe.batch, recipe.questions)
        state, loss = _step(objective, optimizer, state, data, batch)
        losses.append(float(loss))
        on_step(step + 1, losses[-1])
    return unflatten_dict(jax.tree.map(np.asarray, state[0]), sep="/"), losses


def draw_batch(
    rng: np.random.Generator, choices: Int32[np.ndarray, "scene 2"], batch: int, questions: int
) -> Examples:
    """Of each picture a true caption, its false one, and as many of other pictures as fit."""
    image = rng.choice(len(choices), batch, replace=False).astype(np.int32)
    others = choices[rng.integers(len(choices), size=(batch, questions)), 0]
    text = others.astype(np.int32)
    text[:, 0] = choices[image, 0]
    has_false = choices[image, 1] >= 0
    text[has_false, 1] = choices[image[has_false], 1]
    label = np.zeros((batch, questions), bool)
    label[:, 0] = True
    rows = np.repeat(image[:, None], questions, axis=1)
    return Examples(rows, text, label, np.ones_like(label))


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _step(
    objective: VQAObjective,
    optimizer: optax.GradientTransformation,
    state: tuple[Flat, Any],
    data: Pools,
    batch: Examples,
) -> tuple[tuple[Flat, Any], Float[Array, ""]]:
    loss, gradient = objective.value_and_grad(state[0], {}, data, batch, jax.random.key(0))
    with jax.numpy_dtype_promotion("standard"):
        updates, moments = optimizer.update(gradient, state[1], state[0])
    return (optax.apply_updates(state[0], updates), moments), loss
