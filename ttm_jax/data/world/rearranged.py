"""Training scenes with their objects in other places.

The places of the objects turn about the centre of the image by quarters of a circle, while the
objects stay upright: a row becomes a column, then the row in reverse. The images of one scene
differ in nothing but these places (and the grain), so only positions tell their captions apart.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count as numbers

import numpy as np
from jaxtyping import UInt8

from ttm_jax.data.world.render import render
from ttm_jax.data.world.scene import DIRECTIONS, Scene, Thing, related
from ttm_jax.data.world.training import TrainingText, training_scene, write_caption

# First entry of every seed, different from those in training.py and benchmark.py.
GRAIN_STREAM, CAPTION_STREAM = 5, 6
TURNS = 4


def rearranged_scenes(seed: int, count: int) -> list[tuple[Scene, ...]]:
    """The first `count` training scenes of two objects beside each other, each in all turns."""
    found: list[tuple[Scene, ...]] = []
    for index in numbers():
        if len(found) == count:
            break
        scene = training_scene(seed, index)
        if is_pair(scene):
            found.append(tuple(_turn(scene, seed, index, quarters) for quarters in range(TURNS)))
    return found


def is_pair(scene: Scene) -> bool:
    """Whether there are two objects of different shapes, one clearly left of or above the other."""
    if len(scene.things) != 2:
        return False
    a, b = scene.things
    return a.shape != b.shape and any(related(a, b, r, a_is_later=False) for r in DIRECTIONS)


def rearranged_images(
    scenes: Sequence[tuple[Scene, ...]], size: int
) -> UInt8[np.ndarray, "image size size 3"]:
    """One image after the other: all turns of the first scene, then of the second, ..."""
    return np.stack([render(scene, size) for turns in scenes for scene in turns])


def rearranged_captions(
    scenes: Sequence[tuple[Scene, ...]], seed: int, config: TrainingText, draw: int = 0
) -> list[str]:
    """One caption per image, in the same order; a different `draw` rewords them."""
    return [
        write_caption(np.random.default_rng([CAPTION_STREAM, seed, i, turn, draw]), scene, config)
        for i, turns in enumerate(scenes)
        for turn, scene in enumerate(turns)
    ]


def _turn(scene: Scene, seed: int, index: int, quarters: int) -> Scene:
    grain = np.random.default_rng([GRAIN_STREAM, seed, index, quarters]).integers(2**31)
    things = tuple(_move(thing, quarters) for thing in scene.things)
    return replace(scene, things=things, grain_seed=int(grain))


def _move(thing: Thing, quarters: int) -> Thing:
    x, y = thing.x, thing.y
    for _ in range(quarters):
        x, y = 1.0 - y, x
    return replace(thing, x=x, y=y)
