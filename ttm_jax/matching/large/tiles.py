"""Scores of all images with all captions, a tile at a time, on the devices that the model is on.

The only file of `matching` that imports JAX; it is imported when there is too much for a matrix.
One compiled program computes every tile, so that a pair has the same score, to the last bit,
whenever it is looked at. Other programs reduce a tile where it is; only what they find goes to the
host.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Float32, Int, Int32, Int64

from ttm_jax.matching.large.embeddings import Embeddings

_PARTS = 256  # a row (or a column) is cut into at most about so many parts, each with one maximum
_AHEAD = 2  # tiles that the devices compute while the host looks at earlier ones
_ON_CPU = (1024, 2048)  # near the caches
_ELSEWHERE = (4096, 8192)
_LEAST_GATHER = 1024


@dataclass(frozen=True, eq=False)
class Tile:
    """The scores of some images with some captions; beyond the last of them there is padding."""

    row: int
    column: int
    scores: Float32[Array, "row column"]


class Tiles:
    """All tiles of some embeddings."""

    def __init__(self, given: Embeddings, shape: tuple[int, int] | None = None) -> None:
        self.rows, self.columns = given.shape
        self.mesh: Mesh | None = given.mesh
        height, width = shape or self._usual_shape()
        devices = self.mesh.size if self.mesh is not None else 1
        self.height = -(-min(height, _power(self.rows)) // devices) * devices
        self.width = min(width, _power(self.columns))
        # Powers of two, so that parts divide tiles; fewer devices than rows in a part.
        self.part_width = min(self.width, _power(-(-self.columns // _PARTS)))
        self.part_height = self._part_height(-(-self.rows // _PARTS))
        self._images = self._put(given.images, self.height)
        self._texts = self._put(given.texts, self.width)
        self._scale, self._bias = np.float32(given.scale), np.float32(given.bias)
        self._precision = given.precision

    def __iter__(self) -> Iterator[Tile]:
        """Row by row. The next ones are being computed already."""
        waiting: deque[Tile] = deque()
        for row in range(0, self.rows, self.height):
            for column in range(0, self.columns, self.width):
                waiting.append(self._compute(row, column))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft()
        yield from waiting

    def padded_columns(self, values: Float[np.ndarray, " column"]) -> Float32[Array, " padded"]:
        """One number per column on the devices, and infinity for the padding."""
        return self._padded(values, self.width)

    def padded_rows(self, values: Float[np.ndarray, " row"]) -> Float32[Array, " padded"]:
        return self._padded(values, self.height)

    def row_highest(
        self, tile: Tile, price: Float32[Array, " padded"]
    ) -> Float32[Array, "row part"]:
        """Of each part of each row: the highest score minus price."""
        return _row_highest(tile.scores, price, tile.column, self.part_width, self.mesh)

    def row_maxima(
        self, tile: Tile, price: Float32[Array, " padded"]
    ) -> tuple[Float32[Array, "row part"], Int32[Array, "row part"], Float32[Array, "row part"]]:
        """Of each part of each row: the highest score minus price, where it is, and its score."""
        return _row_maxima(tile.scores, price, tile.column, self.part_width, self.mesh)

    def column_maxima(
        self, tile: Tile, price: Float32[Array, " padded"]
    ) -> tuple[
        Float32[Array, "part column"], Int32[Array, "part column"], Float32[Array, "part column"]
    ]:
        """The same of each part of each column."""
        return _column_maxima(tile.scores, price, tile.row, self.part_height, self.mesh)

    def statistics(self, tile: Tile, weight: Float32[Array, " padded"]) -> tuple[Array, ...]:
        """Of each row: the best two scores and where they are, the sum of exp(score - best), and
        the lowest score. `weight` counts each column; padding has infinity and counts nothing."""
        return _statistics(tile.scores, weight, tile.column, self.mesh)

    def parts(
        self, tile: Tile, rows: Int[np.ndarray, " n"], parts: Int[np.ndarray, " n"]
    ) -> Float32[np.ndarray, "n width"]:
        """All scores of some parts of rows of a tile, on the host."""
        rows, parts, count = _fixed(rows, parts)
        return np.asarray(_parts(tile.scores, rows, parts, self.part_width, self.mesh))[:count]

    def elements(
        self, tile: Tile, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]
    ) -> Float32[np.ndarray, " n"]:
        """Some scores of a tile, on the host."""
        rows, columns, count = _fixed(rows, columns)
        return np.asarray(_elements(tile.scores, rows, columns, self.mesh))[:count]

    def place_of(
        self, rows: Int64[np.ndarray, " n"], columns: Int64[np.ndarray, " n"]
    ) -> Int64[np.ndarray, " n"]:
        """The number of the tile that has each pair, in the order of iteration."""
        across = -(-self.columns // self.width)
        return rows // self.height * across + columns // self.width

    def _usual_shape(self) -> tuple[int, int]:
        if jax.default_backend() == "cpu":
            return _ON_CPU
        return _ELSEWHERE

    def _part_height(self, wanted: int) -> int:
        height = min(self.height, _power(wanted))
        while self.height % height:
            height //= 2
        return height

    def _put(self, values: Any, multiple: int) -> Array:
        """On the devices, with zeros up to a multiple."""
        values = np.asarray(values, np.float32)
        return self._everywhere(np.pad(values, ((0, -len(values) % multiple), (0, 0))))

    def _everywhere(self, values: np.ndarray) -> Array:
        """A copy on each device; every host has the same values."""
        if self.mesh is None:
            return jnp.asarray(values)
        return jax.device_put(values, NamedSharding(self.mesh, P()))

    def _padded(self, values: np.ndarray, multiple: int) -> Float32[Array, " padded"]:
        padded = np.full(len(values) + -len(values) % multiple, np.inf, np.float32)
        padded[: len(values)] = values
        return self._everywhere(padded)

    def _compute(self, row: int, column: int) -> Tile:
        scores = _tile(
            self._images, self._texts, row, column, self._scale, self._bias,
            self.height, self.width, self._precision, self.mesh,
        )  # fmt: skip
        return Tile(row, column, scores)


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << max(0, count - 1).bit_length()


def _fixed(
    rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Filled up to one of few lengths, because each is compiled for itself."""
    count = len(rows)
    length = _LEAST_GATHER
    while length < count:
        length *= 4
    fill = (0, length - count)
    return (
        np.pad(rows.astype(np.int32), fill),
        np.pad(columns.astype(np.int32), fill),
        count,
    )


@partial(jax.jit, static_argnames=("height", "width", "precision", "mesh"))
def _tile(
    images: Float32[Array, "n d"],
    texts: Float32[Array, "m d"],
    row: int | Array,
    column: int | Array,
    scale: Any,
    bias: Any,
    height: int,
    width: int,
    precision: str,
    mesh: Mesh | None,
) -> Float32[Array, "height width"]:
    some = jax.lax.dynamic_slice_in_dim(images, row, height)
    if mesh is not None:
        some = jax.lax.with_sharding_constraint(some, NamedSharding(mesh, P(mesh.axis_names[0])))
    others = jax.lax.dynamic_slice_in_dim(texts, column, width)
    return jnp.einsum("ne,me->nm", some, others, precision=precision) * scale + bias


def _on_all(found: Any, mesh: Mesh | None) -> Any:
    """What is found is small: every device, and so every host, gets all of it."""
    if mesh is None:
        return found
    return jax.lax.with_sharding_constraint(found, NamedSharding(mesh, P()))


def _argmax(
    values: Float32[Array, "..."], highest: Float32[Array, "..."], axis: int
) -> Int32[Array, "..."]:
    """Where the maximum is. `jnp.argmax` takes ten times as long on a CPU."""
    shape = [1] * values.ndim
    shape[axis] = values.shape[axis]
    numbers = jnp.arange(values.shape[axis], dtype=jnp.int32).reshape(shape)
    return jnp.where(values == jnp.expand_dims(highest, axis), numbers, -1).max(axis)


def _picked(
    scores: Float32[Array, "..."], place: Int32[Array, "..."], axis: int
) -> Float32[Array, "..."]:
    return jnp.take_along_axis(scores, jnp.expand_dims(place, axis), axis).squeeze(axis)


@partial(jax.jit, static_argnames=("width", "mesh"))
def _row_highest(
    scores: Float32[Array, "row column"],
    price: Any,
    start: int | Array,
    width: int,
    mesh: Mesh | None,
) -> Float32[Array, "row part"]:
    own = jax.lax.dynamic_slice_in_dim(price, start, scores.shape[1])
    left = scores.reshape(scores.shape[0], -1, width) - own.reshape(-1, width)[None]
    return _on_all(left.max(-1), mesh)


@partial(jax.jit, static_argnames=("width", "mesh"))
def _row_maxima(
    scores: Float32[Array, "row column"],
    price: Any,
    start: int | Array,
    width: int,
    mesh: Mesh | None,
) -> tuple[Array, Array, Array]:
    own = jax.lax.dynamic_slice_in_dim(price, start, scores.shape[1])
    parts = scores.reshape(scores.shape[0], -1, width)
    left = parts - own.reshape(-1, width)[None]
    highest = left.max(-1)
    place = _argmax(left, highest, 2)
    return _on_all((highest, place, _picked(parts, place, 2)), mesh)


@partial(jax.jit, static_argnames=("height", "mesh"))
def _column_maxima(
    scores: Float32[Array, "row column"],
    price: Any,
    start: int | Array,
    height: int,
    mesh: Mesh | None,
) -> tuple[Array, Array, Array]:
    own = jax.lax.dynamic_slice_in_dim(price, start, scores.shape[0])
    parts = scores.reshape(-1, height, scores.shape[1])
    left = parts - own.reshape(-1, height)[:, :, None]
    highest = left.max(1)
    place = _argmax(left, highest, 1)
    return _on_all((highest, place, _picked(parts, place, 1)), mesh)


@partial(jax.jit, static_argnames=("mesh",))
def _statistics(
    scores: Float32[Array, "row column"], weight: Any, start: int | Array, mesh: Mesh | None
) -> tuple[Array, ...]:
    times = jax.lax.dynamic_slice_in_dim(weight, start, scores.shape[1])[None]
    real = jnp.isfinite(times)
    seen = jnp.where(real, scores, -jnp.inf)
    first = seen.max(1)
    first_at = _argmax(seen, first, 1)
    rest = jnp.where(jnp.arange(seen.shape[1])[None] == first_at[:, None], -jnp.inf, seen)
    second = rest.max(1)
    second_at = _argmax(rest, second, 1)
    mass = (jnp.exp(seen - first[:, None]) * jnp.where(real, times, 0.0)).sum(1)
    lowest = jnp.where(real, scores, jnp.inf).min(1)
    return _on_all((first, first_at, second, second_at, mass, lowest), mesh)


@partial(jax.jit, static_argnames=("width", "mesh"))
def _parts(
    scores: Float32[Array, "row column"], rows: Any, parts: Any, width: int, mesh: Mesh | None
) -> Array:
    return _on_all(scores.reshape(scores.shape[0], -1, width)[rows, parts], mesh)


@partial(jax.jit, static_argnames=("mesh",))
def _elements(
    scores: Float32[Array, "row column"], rows: Any, columns: Any, mesh: Mesh | None
) -> Array:
    return _on_all(scores[rows, columns], mesh)
