"""The fourth stage of pretraining: positions.

Both towers are trained with the contrastive loss and, through one linear head for both, to predict
which thing is on which side according to the caption. Part of each batch are albums of training
scenes in which only the places of the objects differ (ttm_jax/data/world/rearranged.py).
"""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int32, UInt8

from ttm_jax.data.world.rearranged import (
    TURNS,
    rearranged_captions,
    rearranged_images,
    rearranged_scenes,
)
from ttm_jax.inputs.tokenize import CaptionTokenizer
from ttm_jax.small.batches import Batches
from ttm_jax.small.fitting import Module, OnStep, contrastive, fit, head_loss, new_head, normalised
from ttm_jax.small.places import find_places, label_places
from ttm_jax.small.recipe import Recipe
from ttm_jax.small.vary import vary


def learn_positions(
    recipe: Recipe,
    module: Module,
    params: Any,
    images: UInt8[np.ndarray, "scene h w 3"],
    captions: list[list[str]],
    tokens: Int32[np.ndarray, "draw scene length"],
    tokenizer: CaptionTokenizer,
    batches: Batches,
    on_step: OnStep,
    first: int = 0,
) -> Any:
    """Train both towers in rounds, from number `first` on; the head is discarded after each."""
    scenes = rearranged_scenes(recipe.seed, recipe.rearranged)
    moved_images = rearranged_images(scenes, recipe.image_size)
    moved = [
        rearranged_captions(scenes, recipe.seed, recipe.rearranged_text, draw)
        for draw in range(recipe.rewordings)
    ]
    moved_tokens = np.stack([tokenizer(draw).ids for draw in moved])
    known = find_places([text for draw in (*captions, *moved) for text in draw])
    labels, moved_labels = (
        np.stack([label_places(draw, known) for draw in draws]) for draws in (captions, moved)
    )
    often = (labels[0].mean(axis=0) + moved_labels[0].mean(axis=0)) / 2
    albums = int(recipe.batch * recipe.rearranged_share) // TURNS

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        album = rng.integers(0, len(scenes), albums)
        turned = (TURNS * album[:, None] + np.arange(TURNS)).ravel()
        rest = recipe.batch - len(turned)
        rows = batches.draw(rng, rest, recipe.position_albums, recipe.album_size)
        said = rng.integers(0, recipe.rewordings, recipe.batch)
        a, b = said[: len(turned)], said[len(turned) :]
        return (
            vary(rng, np.concatenate([moved_images[turned], images[rows]]), recipe.vary),
            np.concatenate([moved_tokens[a, turned], tokens[b, rows]]),
            np.concatenate([moved_labels[a, turned], labels[b, rows]]),
        )

    def loss(moving: Any, batch: tuple[Array, Array, Array]) -> Float[Array, ""]:
        variables, head = {"params": moving[0]}, moving[1]
        apply: Any = module.apply
        shown = apply(variables, normalised(recipe, batch[0]), method="encode_image")
        said = apply(variables, batch[1], method="encode_text")
        places = head_loss(head, shown, batch[2]) + head_loss(head, said, batch[2])
        logits = apply(variables, shown, said, method="logits")
        return contrastive(recipe, logits) + recipe.place_weight * places

    for number in range(first, recipe.rounds):
        some = partial(draw, np.random.default_rng([recipe.seed, 4 + number]))
        head = new_head(recipe, often.astype(np.float32))
        params, _ = fit(recipe, recipe.positions, (params, head), loss, some, on_step)
    return params
