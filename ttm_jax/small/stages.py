"""The first three stages of pretraining: words, reading, together. The fourth is in positions.py.

1. Words: the image tower and a linear head learn to predict which words and bigrams the caption of
   an image contains (visual n-grams; Li et al., ICCV 2017). The head is then discarded.
2. Reading: the image tower is frozen and its embeddings are computed once. The text tower learns to
   match them with the contrastive loss (Zhai et al., "LiT", CVPR 2022).
3. Together: both towers are trained with the contrastive loss at a small learning rate, and the
   images vary in light, colour and noise.

The contrastive loss alone, from scratch, needs a thousand steps to learn colours and several
thousand to learn shapes: too long for a laptop.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int32, UInt8

from ttm_jax.small.batches import Batches
from ttm_jax.small.fitting import (
    Module,
    OnStep,
    contrastive,
    encode_images,
    fit,
    head_loss,
    new_head,
    normalised,
)
from ttm_jax.small.ngrams import find_ngrams, label
from ttm_jax.small.recipe import Recipe
from ttm_jax.small.vary import vary

_ENCODE = 500


def learn_words(
    recipe: Recipe,
    module: Module,
    params: Any,
    images: UInt8[np.ndarray, "scene h w 3"],
    captions: list[list[str]],
    on_step: OnStep,
) -> Any:
    """Train the image tower to predict words; the text tower is unchanged."""
    known = find_ngrams(captions[0], recipe.ngrams)
    labels = np.stack([label(draw, known) for draw in captions])
    head = new_head(recipe, labels[0].mean(axis=0, dtype=np.float32))
    rng = np.random.default_rng([recipe.seed, 1])

    def draw() -> tuple[np.ndarray, np.ndarray]:
        rows = rng.integers(0, recipe.scenes, recipe.batch)
        return images[rows], labels[rng.integers(0, len(labels), recipe.batch), rows]

    def loss(moving: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        tower, head = moving
        found = encode_images(recipe, module, {**params, "img": tower}, batch[0])
        return head_loss(head, found, batch[1])

    tower, _ = fit(recipe, recipe.words, (params["img"], head), loss, draw, on_step)
    return {**params, "img": tower}


def learn_to_read(
    recipe: Recipe,
    module: Module,
    params: Any,
    images: UInt8[np.ndarray, "scene h w 3"],
    tokens: Int32[np.ndarray, "draw scene length"],
    batches: Batches,
    on_step: OnStep,
) -> Any:
    """Train the text tower, temperature and bias to match the frozen image tower."""
    encode = jax.jit(partial(encode_images, recipe, module))
    portions = range(0, recipe.scenes, _ENCODE)
    found = np.concatenate([encode(params, images[i : i + _ENCODE]) for i in portions])
    rng = np.random.default_rng([recipe.seed, 2])
    apply: Any = module.apply

    def loss(moving: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        variables = {"params": {**params, **moving}}
        texts = apply(variables, batch[1], method="encode_text")
        return contrastive(recipe, apply(variables, batch[0], texts, method="logits"))

    moving = {name: value for name, value in params.items() if name != "img"}
    draw = partial(draw_pairs, recipe, rng, batches, found, tokens)
    return {**params, **fit(recipe, recipe.reading, moving, loss, draw, on_step)}


def learn_together(
    recipe: Recipe,
    module: Module,
    params: Any,
    images: UInt8[np.ndarray, "scene h w 3"],
    tokens: Int32[np.ndarray, "draw scene length"],
    batches: Batches,
    on_step: OnStep,
) -> Any:
    """Train both towers."""
    rng = np.random.default_rng([recipe.seed, 3])
    apply: Any = module.apply

    def loss(params: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        pixels = normalised(recipe, batch[0])
        return contrastive(recipe, apply({"params": params}, pixels, batch[1]))

    def draw() -> tuple[np.ndarray, np.ndarray]:
        pixels, ids = draw_pairs(recipe, rng, batches, images, tokens)
        return vary(rng, pixels, recipe.vary), ids

    return fit(recipe, recipe.together, params, loss, draw, on_step)


def draw_pairs(
    recipe: Recipe,
    rng: np.random.Generator,
    batches: Batches,
    pictures: np.ndarray,
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    rows = batches.draw(rng, recipe.batch, recipe.album_share, recipe.album_size)
    return pictures[rows], tokens[rng.integers(0, len(tokens), recipe.batch), rows]
