"""Batch composition for pretraining.

In a random batch hardly any two images show the same shapes in the same colours, so a bag of words
is enough to tell them apart, and a model does not learn which object has which colour or position.
This is why large contrastive models are weak at it (Yuksekgonul et al., ICLR 2023). Here part of
each batch consists of albums: a few images of the same shapes and colours in any arrangement.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from ttm_jax.data.world.scene import Scene


@dataclass(frozen=True)
class Batches:
    """Draws the rows of a batch; each album holds the rows of images that look alike."""

    count: int
    albums: tuple[Int64[np.ndarray, "_"], ...]
    weights: np.ndarray

    def draw(
        self, rng: np.random.Generator, size: int, share: float, album: int
    ) -> Int64[np.ndarray, "size"]:
        """Draw a fraction `share` of the batch as albums of `album` images, the rest uniformly."""
        wanted = int(size * share) // album if self.albums else 0
        chosen = rng.choice(max(1, len(self.albums)), wanted, p=self.weights if wanted else None)
        rows = [rng.choice(self.albums[i], album, replace=False) for i in chosen]
        rest = size - album * len(rows)
        return np.concatenate([*rows, rng.integers(0, self.count, rest)]).astype(np.int64)


def find_albums(scenes: Sequence[Scene], least: int) -> Batches:
    """Find the sets of at least `least` images with the same set of shapes and of colours."""
    alike: dict[tuple, list[int]] = defaultdict(list)
    for row, scene in enumerate(scenes):
        if len(scene.things) > 1:
            shapes = frozenset(thing.shape for thing in scene.things)
            alike[shapes, frozenset(thing.color for thing in scene.things)].append(row)
    albums = tuple(np.asarray(rows) for rows in alike.values() if len(rows) >= least)
    sizes = np.asarray([len(rows) for rows in albums], float)
    return Batches(len(scenes), albums, sizes / sizes.sum())
