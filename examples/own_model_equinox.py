"""Test-Time Matching for a model of your own, written with Equinox (pip install equinox).

    python examples/own_model_equinox.py [RUN_FOLDER]

The model here is tiny and untrained, so the numbers say nothing: put yours in its place.
"""

import sys

import equinox as eqx
import jax

import ttm_jax
from ttm_jax.data import world

SIZE, LENGTH, WIDTH = 32, 64, 16


class TwoTowers(eqx.Module):
    """Patches, and characters by their places, averaged. Equinox modules take one example."""

    patches: eqx.nn.Conv2d
    image_head: eqx.nn.Linear
    letters: eqx.nn.Embedding
    places: eqx.nn.Embedding
    text_head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 5)
        self.patches = eqx.nn.Conv2d(3, WIDTH, 8, stride=8, key=keys[0])
        self.image_head = eqx.nn.Linear(WIDTH, WIDTH, key=keys[1])
        self.letters = eqx.nn.Embedding(128, WIDTH, key=keys[2])
        self.places = eqx.nn.Embedding(LENGTH, WIDTH, key=keys[3])
        self.text_head = eqx.nn.Linear(WIDTH, WIDTH, key=keys[4])

    def image(self, pixels: jax.Array) -> jax.Array:
        return self.image_head(jax.nn.gelu(self.patches(pixels.transpose(2, 0, 1))).mean((1, 2)))

    def text(self, ids: jax.Array) -> jax.Array:
        letters = jax.vmap(self.letters)(ids) * self.places.weight
        return self.text_head(letters.mean(0))


# What is trained is a tree of arrays; the rest of the module stays outside.
params, static = eqx.partition(TwoTowers(jax.random.key(0)), eqx.is_inexact_array)


def encode_image(params: TwoTowers, pixels: jax.Array) -> jax.Array:
    return jax.vmap(eqx.combine(params, static).image)(pixels)


def encode_text(params: TwoTowers, ids: jax.Array) -> jax.Array:
    return jax.vmap(eqx.combine(params, static).text)(ids)


def tokenize(captions: list[str]) -> list[list[int]]:
    """Characters, cut or padded to one length."""
    return [[ord(letter) % 128 for letter in text[:LENGTH].ljust(LENGTH)] for text in captions]


def main(run_dir: str | None = None) -> ttm_jax.TTMResult:
    model = ttm_jax.own_model(
        encode_image, encode_text, params, image_size=SIZE, tokenizer=tokenize, loss="clip"
    )
    dataset = world.make("color_swap", groups=6)
    config = ttm_jax.TTMConfig(lr=1e-3, iterations=2, epochs=1)
    result = ttm_jax.run_ttm(model, dataset, config, run_dir)
    adapted = eqx.combine(result.model.tree, static)  # an Equinox module again
    print(type(adapted).__name__, result.metrics["group_match"]["percent"])
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
