"""The three stages of pretraining: words, reading, together.

1. Words: the image tower and a linear head learn to predict which words and bigrams the caption of
   an image contains (visual n-grams; Li et al., ICCV 2017), and which thing is on which side.
2. Reading: the image tower is frozen and its embeddings are computed once. The text tower learns to
   match them with the contrastive loss (Zhai et al., "LiT", CVPR 2022) and, through the same head,
   to predict which thing is on which side.
3. Together: both towers are trained with both losses. The head is then discarded.

The contrastive loss alone, from scratch, needs a thousand steps to learn colours and several
thousand to learn shapes: too long for a laptop. Positions it does not find at all.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from ttm_jax.small.corpus import Corpus
from ttm_jax.small.fitting import (
    Module,
    OnStep,
    contrastive,
    encode_images,
    fit,
    head_loss,
    new_head,
)
from ttm_jax.small.recipe import Recipe
from ttm_jax.small.vary import vary

_ENCODE = 500
Head = dict[str, Array]


def learn_words(
    recipe: Recipe, module: Module, params: Any, corpus: Corpus, on_step: OnStep
) -> tuple[Any, Head]:
    """Train the image tower to predict words and places; return also the head for places."""
    often = [part[0].mean(axis=0, dtype=np.float32) for part in (corpus.words, corpus.places)]
    head = new_head(recipe, np.concatenate(often))
    rng = np.random.default_rng([recipe.seed, 1])

    def draw() -> tuple[np.ndarray, np.ndarray]:
        rows, said = corpus.draw(recipe, rng)
        labels = np.concatenate([corpus.words[said, rows], corpus.places[said, rows]], axis=1)
        return vary(rng, corpus.images[rows], recipe.vary), labels

    def loss(moving: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        tower, head = moving
        found = encode_images(recipe, module, {**params, "img": tower}, batch[0])
        return head_loss(head, found, batch[1])

    tower, head = fit(recipe, recipe.words, (params["img"], head), loss, draw, on_step)
    places = corpus.places.shape[-1]
    return {**params, "img": tower}, {name: part[..., -places:] for name, part in head.items()}


def learn_to_read(
    recipe: Recipe, module: Module, params: Any, head: Head, corpus: Corpus, on_step: OnStep
) -> tuple[Any, Head]:
    """Train the text tower, temperature and bias to match the frozen image tower."""
    encode = jax.jit(partial(encode_images, recipe, module))
    portions = range(0, len(corpus.images), _ENCODE)
    found = np.concatenate([encode(params, corpus.images[i : i + _ENCODE]) for i in portions])
    rng = np.random.default_rng([recipe.seed, 2])
    apply: Any = module.apply

    def draw() -> tuple[np.ndarray, ...]:
        rows, said = corpus.draw(recipe, rng)
        return found[rows], corpus.tokens[said, rows], corpus.places[said, rows]

    def loss(moving: Any, batch: tuple[Array, Array, Array]) -> Float[Array, ""]:
        variables = {"params": {**params, **moving[0]}}
        texts = apply(variables, batch[1], method="encode_text")
        logits = apply(variables, batch[0], texts, method="logits")
        places = head_loss(moving[1], texts, batch[2])
        return contrastive(recipe, logits) + recipe.place_weight * places

    text = {name: value for name, value in params.items() if name != "img"}
    text, head = fit(recipe, recipe.reading, (text, head), loss, draw, on_step)
    return {**params, **text}, head


def learn_together(
    recipe: Recipe, module: Module, params: Any, head: Head, corpus: Corpus, on_step: OnStep
) -> Any:
    """Train both towers."""
    rng = np.random.default_rng([recipe.seed, 3])
    apply: Any = module.apply

    def draw() -> tuple[np.ndarray, ...]:
        rows, said = corpus.draw(recipe, rng)
        pixels = vary(rng, corpus.images[rows], recipe.vary)
        return pixels, corpus.tokens[said, rows], corpus.places[said, rows]

    def loss(moving: Any, batch: tuple[Array, Array, Array]) -> Float[Array, ""]:
        params, head = moving
        images = encode_images(recipe, module, params, batch[0])
        texts = apply({"params": params}, batch[1], method="encode_text")
        logits = apply({"params": params}, images, texts, method="logits")
        places = head_loss(head, images, batch[2]) + head_loss(head, texts, batch[2])
        return contrastive(recipe, logits) + recipe.place_weight * places

    return fit(recipe, recipe.together, (params, head), loss, draw, on_step)[0]
