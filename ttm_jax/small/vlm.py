"""A small SmolVLM, built like the large one: the image tower of a SigLIP followed by a decoder.

It learns on the training split of the procedural world to say whether an image shows a caption:
true captions, captions with exchanged attributes or a reversed relation, and captions of other
images.
"""

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array, Float, Int32, UInt8

from ttm_jax.data.world import TrainingText, training_captions, training_pairs
from ttm_jax.files import temporary_folder, write_json
from ttm_jax.hosts import this_host
from ttm_jax.scorers.vqa.inputs import Pools
from ttm_jax.scorers.vqa.model import VQAModel
from ttm_jax.scorers.vqa.objective import VQAObjective
from ttm_jax.small.vlm_start import VLMRecipe, is_locked, untrained
from ttm_jax.training import sharding
from ttm_jax.training.task import Examples
from ttm_jax.training.trainable import Flat
from ttm_jax.weights import idefics3

RECIPE = VLMRecipe()
TRUE = TrainingText(color=1.0, omit=0.2, wrong=0.0, misbound=0.0, misplaced=0.0)
FALSE = TrainingText(color=1.0, omit=0.2, wrong=0.0, misbound=1.0, misplaced=1.0)


def small_vlm(
    folder: Path,
    recipe: VLMRecipe = RECIPE,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Path:
    """Return `folder`, training the model into it first if it does not exist."""
    folder = Path(folder)
    if (folder / "config.json").is_file():
        return folder
    began = time.perf_counter()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder.parent) as temporary:
        images, texts, choices = training_data(recipe)
        model = untrained(recipe, temporary / "files", texts)
        pools, _ = model.read(images, texts)
        params, losses = fit(recipe, model, pools, choices, on_step)
        made = temporary / "model"
        idefics3.save(made, model.config, params, extra_files_from=temporary / "files")
        record = {
            "recipe": asdict(recipe),
            "parameters": sum(x.size for x in jax.tree.leaves(params)),
            "final_loss": float(np.mean(losses[-50:])),
            "seconds": round(time.perf_counter() - began, 1),
        }
        write_json(made / "recipe.json", record)
        os.replace(made, folder)
    return folder


def training_data(
    recipe: VLMRecipe,
) -> tuple[UInt8[np.ndarray, "scene h w 3"], list[str], Int32[np.ndarray, "scene 2"]]:
    """Images, distinct captions, and for each image the index of a true and of a false caption.

    A false caption has the words of the true one in another order; where exchanging them changes
    nothing there is none (-1).
    """
    images, _ = training_pairs(recipe.seed, recipe.scenes, TRUE, recipe.image_size)
    true, false = (training_captions(recipe.seed, recipe.scenes, text) for text in (TRUE, FALSE))
    texts = sorted({*true, *false})
    place = {text: number for number, text in enumerate(texts)}
    choices = [[place[a], place[b] if a != b else -1] for a, b in zip(true, false, strict=True)]
    return images, texts, np.asarray(choices, np.int32)


def draw_batch(
    rng: np.random.Generator, choices: Int32[np.ndarray, "scene 2"], batch: int, questions: int
) -> Examples:
    """For each image: its true caption, its false one, and captions of other images."""
    image = rng.choice(len(choices), batch, replace=False).astype(np.int32)
    text = choices[rng.integers(len(choices), size=(batch, questions)), 0]
    text[:, 0] = choices[image, 0]
    has_false = choices[image, 1] >= 0
    text[has_false, 1] = choices[image[has_false], 1]
    label = np.zeros((batch, questions), bool)
    label[:, 0] = True
    rows = np.repeat(image[:, None], questions, axis=1)
    return Examples(rows, text, label, np.ones_like(label))


def fit(
    recipe: VLMRecipe,
    model: VQAModel,
    pools: Pools,
    choices: Int32[np.ndarray, "scene 2"],
    on_step: Callable[[int, float], None],
) -> tuple[Any, list[float]]:
    """Train with AdamW, warm-up and cosine decay on the loss of Test-Time Matching."""
    mesh = sharding.make_mesh(this_host.devices()[:1])
    objective = VQAObjective(model.vqa(mesh), recipe.questions)
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, recipe.lr, recipe.warmup, max(recipe.steps, recipe.warmup + 1), 0.02 * recipe.lr
    )
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, b2=0.98, weight_decay=recipe.weight_decay),
    )
    params = flatten_dict(model.params, sep="/")
    trained = {path: x for path, x in params.items() if not is_locked(recipe, path)}
    # Use the sharding that the step returns: otherwise the second step would compile again.
    state, frozen, data = sharding.put(
        (
            (trained, optimizer.init(trained)),
            {path: x for path, x in params.items() if path not in trained},
            pools,
        ),
        sharding.replicated(mesh),
    )
    rng = np.random.default_rng(recipe.seed)
    losses: list[float] = []
    for step in range(recipe.steps):
        batch = draw_batch(rng, choices, recipe.batch, recipe.questions)
        state, loss = _step(objective, optimizer, state, frozen, data, batch)
        losses.append(float(loss))
        on_step(step + 1, losses[-1])
    return unflatten_dict(jax.tree.map(np.asarray, {**frozen, **state[0]}), sep="/"), losses


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _step(
    objective: VQAObjective,
    optimizer: optax.GradientTransformation,
    state: tuple[Flat, Any],
    frozen: Flat,
    data: Pools,
    batch: Examples,
) -> tuple[tuple[Flat, Any], Float[Array, ""]]:
    loss, gradient = objective.value_and_grad(state[0], frozen, data, batch, jax.random.key(0))
    with jax.numpy_dtype_promotion("standard"):
        updates, moments = optimizer.update(gradient, state[1], state[0])
    return (optax.apply_updates(state[0], updates), moments), loss
