"""Scores that nobody has computed yet: two lists of embeddings, whose products they are."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from ttm_jax.errors import InputError


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The score of image i and caption j is `scale * images[i] @ texts[j] + bias`, in float32.

    Examples:
        >>> import numpy as np
        >>> from ttm_jax.matching.large.embeddings import Embeddings
        >>> from ttm_jax.matching.match import match_global
        >>> points = np.eye(3, 4)
        >>> match_global(Embeddings(points, points[::-1], scale=10.0)).matching.tolist()
        [2, 1, 0]
    """

    images: Any
    """`[image, dimension]`, on the host or on devices."""
    texts: Any
    """`[text, dimension]`."""
    scale: float = 1.0
    """What products are multiplied with: exp of a model's logit scale."""
    bias: float = 0.0
    """What is added to all of them."""
    mesh: Any = None
    """The devices to compute on, with one axis; the default device if None."""
    precision: str = "highest"
    """Of the products, as `jax.lax.Precision` names it."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of images and captions."""
        return len(self.images), len(self.texts)

    def dense(self) -> np.ndarray:
        """The matrix of all scores, the same numbers to the last bit as in the tiles."""
        from ttm_jax.matching.large.tiles import Tiles

        scores = np.empty(self.shape, np.float32)
        tiles = Tiles(self)
        for tile in tiles:
            part = scores[tile.row : tile.row + tiles.height, tile.column :][:, : tiles.width]
            part[:] = np.asarray(tile.scores)[: part.shape[0], : part.shape[1]]
        return scores

    def within(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Scores of small groups: `rows[group, image]` with `columns[group, text]`."""
        images, texts = np.asarray(self.images)[rows], np.asarray(self.texts)[columns]
        products = np.einsum("gie,gte->git", images, texts)
        return (products * np.float32(self.scale) + np.float32(self.bias)).astype(np.float32)

    def checked(self) -> "Embeddings":
        """The same, if the arrays are what they should be.

        Raises:
            InputError: They are not; the message says what is expected.
        """
        for name, values in (("images", self.images), ("texts", self.texts)):
            shape = np.shape(values)
            if len(shape) != 2 or 0 in shape:
                raise InputError(
                    f"embeddings of {name} have shape {shape}: expected [{name[:-1]}, dimension], "
                    "and at least one of each"
                )
            if np.dtype(values.dtype).kind in "cOSUbM":
                raise InputError(
                    f"embeddings of {name} are of type {values.dtype}; expected float32"
                )
            if not np.isfinite(np.asarray(values)).all():
                raise InputError(f"embeddings of {name} contain NaN or infinity")
        if self.images.shape[1] != self.texts.shape[1]:
            raise InputError(
                f"images have embeddings of {self.images.shape[1]} numbers, and captions of "
                f"{self.texts.shape[1]}; expected as many"
            )
        return replace(
            self,
            images=np.asarray(self.images, np.float32),
            texts=np.asarray(self.texts, np.float32),
        )


@dataclass(frozen=True, eq=False)
class Distinct:
    """Rows without repetitions. Their order depends on their contents and not on that of the data,
    so that no tie is broken by the place of an image or a caption."""

    values: np.ndarray  # float32 [node, dimension]
    node_of: Int32[np.ndarray, " unit"]
    counts: Int64[np.ndarray, " node"]

    def __len__(self) -> int:
        return len(self.counts)

    def units(self) -> tuple[Int64[np.ndarray, " unit"], Int64[np.ndarray, " node"]]:
        """All units, ordered by node, and where each node begins among them."""
        order = np.argsort(self.node_of, kind="stable")
        return order, np.cumsum(self.counts) - self.counts


def distinct(values: np.ndarray) -> Distinct:
    """Group rows that are equal to the last bit."""
    rows = np.ascontiguousarray(values + np.float32(0.0))  # -0.0 is 0.0
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)
    _, first, node_of, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return Distinct(rows[first], node_of.astype(np.int32), counts.astype(np.int64))
