"""Test-Time Matching for a model of your own, written with Flax NNX.

    python examples/own_model_nnx.py [RUN_FOLDER]

The model here is tiny and untrained, so the numbers say nothing: put yours in its place.
"""

import sys

import jax
import jax.numpy as jnp
from flax import nnx

import ttm_jax
from ttm_jax.data import world

SIZE, LENGTH, WIDTH = 32, 64, 16


class TwoTowers(nnx.Module):
    """Patches, and characters by their places, averaged."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.patches = nnx.Conv(3, WIDTH, (8, 8), strides=8, padding="VALID", rngs=rngs)
        self.image_head = nnx.Linear(WIDTH, WIDTH, rngs=rngs)
        self.letters = nnx.Embed(128, WIDTH, rngs=rngs)
        self.places = nnx.Embed(LENGTH, WIDTH, rngs=rngs)
        self.text_head = nnx.Linear(WIDTH, WIDTH, rngs=rngs)

    def image(self, pixels: jax.Array) -> jax.Array:
        return self.image_head(nnx.gelu(self.patches(pixels)).mean((1, 2)))

    def text(self, ids: jax.Array) -> jax.Array:
        letters = self.letters(ids) * self.places(jnp.arange(LENGTH))[None]
        return self.text_head(letters.mean(1))


# What is trained is a tree of arrays; the rest of the module stays outside.
graph, params, rest = nnx.split(TwoTowers(nnx.Rngs(0)), nnx.Param, ...)


def encode_image(params: nnx.State, pixels: jax.Array) -> jax.Array:
    return nnx.merge(graph, params, rest).image(pixels)


def encode_text(params: nnx.State, ids: jax.Array) -> jax.Array:
    return nnx.merge(graph, params, rest).text(ids)


def tokenize(captions: list[str]) -> list[list[int]]:
    """Characters, cut or padded to one length."""
    return [[ord(letter) % 128 for letter in text[:LENGTH].ljust(LENGTH)] for text in captions]


def main(run_dir: str | None = None) -> ttm_jax.TTMResult:
    model = ttm_jax.own_model(
        encode_image, encode_text, params, image_size=SIZE, tokenizer=tokenize, loss="siglip"
    )
    dataset = world.make("color_swap", groups=6)
    config = ttm_jax.TTMConfig(lr=1e-3, iterations=2, epochs=1)
    result = ttm_jax.run_ttm(model, dataset, config, run_dir)
    adapted = nnx.merge(graph, result.model.tree, rest)  # an NNX module again
    print(type(adapted).__name__, result.metrics["group_match"]["percent"])
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
