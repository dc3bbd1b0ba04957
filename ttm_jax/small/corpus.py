"""What the small models are trained on: images, captions, and the labels found in the captions.

The first rows are training scenes. After them come the rearranged ones: scenes of two objects, each
shown in four arrangements that differ only in the places of the objects
(ttm_jax/data/world/rearranged.py).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64, UInt8

from ttm_jax.data.world import training_captions, training_pairs
from ttm_jax.data.world.rearranged import (
    TURNS,
    rearranged_captions,
    rearranged_images,
    rearranged_scenes,
)
from ttm_jax.data.world.training import training_scene
from ttm_jax.inputs.tokenize import CaptionTokenizer
from ttm_jax.small.batches import Batches, find_albums
from ttm_jax.small.ngrams import find_ngrams, label
from ttm_jax.small.places import find_places, label_places
from ttm_jax.small.recipe import Recipe


@dataclass(frozen=True)
class Corpus:
    images: UInt8[np.ndarray, "row h w 3"]
    tokens: Int32[np.ndarray, "draw row length"]
    """Of several captions of each image, in different words."""
    words: UInt8[np.ndarray, "draw row ngram"]
    """1 where a caption contains a word, or a pair of neighbouring words."""
    places: UInt8[np.ndarray, "draw row place"]
    """1 where a caption says on which side something is."""
    batches: Batches
    """Albums among the rows that are not rearranged."""

    def draw(
        self, recipe: Recipe, rng: np.random.Generator
    ) -> tuple[Int64[np.ndarray, "batch"], Int64[np.ndarray, "batch"]]:
        """The rows of a batch, and which caption of each: rearranged scenes, albums, the rest."""
        scenes = (len(self.images) - self.batches.count) // TURNS
        chosen = rng.integers(0, scenes, int(recipe.batch * recipe.rearranged_share) // TURNS)
        turned = self.batches.count + (TURNS * chosen[:, None] + np.arange(TURNS)).ravel()
        rest = recipe.batch - len(turned)
        rows = self.batches.draw(rng, rest, recipe.album_share, recipe.album_size)
        said = rng.integers(0, len(self.tokens), recipe.batch)
        return np.concatenate([turned, rows]), said


def write_captions(recipe: Recipe) -> list[list[str]]:
    """All captions of the corpus, `recipe.rewordings` times in different words."""
    scenes = rearranged_scenes(recipe.seed, recipe.rearranged)
    return [
        training_captions(recipe.seed, recipe.scenes, recipe.text, draw=draw)
        + rearranged_captions(scenes, recipe.seed, recipe.rearranged_text, draw)
        for draw in range(recipe.rewordings)
    ]


def make_corpus(recipe: Recipe, captions: list[list[str]], tokenizer: CaptionTokenizer) -> Corpus:
    """Render the images, and label them with what their captions say."""
    images, _ = training_pairs(recipe.seed, recipe.scenes, recipe.text, recipe.image_size)
    moved = rearranged_images(rearranged_scenes(recipe.seed, recipe.rearranged), recipe.image_size)
    known = find_ngrams(captions[0], recipe.ngrams)
    sides = find_places([text for draw in captions for text in draw])
    scenes = [training_scene(recipe.seed, number) for number in range(recipe.scenes)]
    return Corpus(
        np.concatenate([images, moved]),
        np.stack([tokenizer(draw).ids for draw in captions]),
        np.stack([label(draw, known) for draw in captions]),
        np.stack([label_places(draw, sides) for draw in captions]),
        find_albums(scenes, recipe.album_size),
    )
