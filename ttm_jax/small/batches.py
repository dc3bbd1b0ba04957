"""Which training pictures meet in a batch.

In a random batch hardly any two pictures show the same shapes in the same colours, so a bag of
words tells them apart and nothing teaches a model who has which colour or who stands where. That is
why large contrastive models are weak at it (Yuksekgonul et al., ICLR 2023). Here a part of each
batch comes as albums: a few pictures of the same shapes and colours, however they are arranged.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from ttm_jax.data.world.scene import Scene


@dataclass(frozen=True)
class Batches:
    """Draws the rows of a batch; `albums` hold rows of pictures that look alike."""

    count: int
    albums: tuple[Int64[np.ndarray, "_"], ...]
    weights: np.ndarray

    def draw(
        self, rng: np.random.Generator, size: int, share: float, album: int
    ) -> Int64[np.ndarray, "size"]:
        """`share` of the batch in albums of `album` pictures, the rest at random."""
        wanted = int(size * share) // album if self.albums else 0
        chosen = rng.choice(max(1, len(self.albums)), wanted, p=self.weights if wanted else None)
        rows = [rng.choice(self.albums[i], album, replace=False) for i in chosen]
        rest = size - album * len(rows)
        return np.concatenate([*rows, rng.integers(0, self.count, rest)]).astype(np.int64)


def find_albums(scenes: Sequence[Scene], least: int) -> Batches:
    """Pictures with the same set of shapes and the same set of colours, `least` or more of them."""
    alike: dict[tuple, list[int]] = defaultdict(list)
    for row, scene in enumerate(scenes):
        if len(scene.things) > 1:
            shapes = frozenset(thing.shape for thing in scene.things)
            alike[shapes, frozenset(thing.color for thing in scene.things)].append(row)
    albums = tuple(np.asarray(rows) for rows in alike.values() if len(rows) >= least)
    sizes = np.asarray([len(rows) for rows in albums], float)
    return Batches(len(scenes), albums, sizes / sizes.sum())
