"""VQAScore of many (image, caption) pairs: every image is encoded once for all its questions.

The prefix of a prompt (everything up to the end of the image) does not depend on the question, so
its keys and values are computed once and shared by all questions. This is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float32, Int32

from ttm_jax.inputs.preprocess import normalise
from ttm_jax.inputs.vlm_images import TileProcessor
from ttm_jax.models.llama import Cache
from ttm_jax.models.smolvlm import SmolVLM
from ttm_jax.scorers.vqa.inputs import QUESTION_BUCKET, Pools, Sizes
from ttm_jax.training.sharding import replicated, round_up, shard_batch

Normalise = Literal["vocabulary", "answers"]
QUESTIONS_AT_ONCE = 8  # per image of a batch


@dataclass(frozen=True)
class VQA:
    """The computation without parameters and data: equal instances share a compilation."""

    module: SmolVLM
    processor: TileProcessor  # provides mean and standard deviation
    answers: tuple[int, int]  # token ids of yes and no
    normalise: Normalise
    mesh: Mesh

    def features(
        self,
        state: dict[str, Any],
        data: Pools,
        tiles: Int32[Array, "b t"],
        at_once: int | None = None,
    ) -> Float[Array, "b tn w"]:
        """Image features, computed one tile of `at_once` images (of all) at a time: less memory."""

        def one(rows: Array) -> Array:
            pixels = shard_batch(data.tiles[rows], self.mesh)
            apply: Any = self.module.apply
            images = normalise(pixels, self.processor.mean, self.processor.std)
            return apply(state, images, method="encode_tiles")

        b, t = tiles.shape
        k = b if at_once is None or b % at_once else at_once
        rows = tiles.reshape(b // k, k, t).swapaxes(1, 2).reshape(-1, k)
        found = one(rows[0])[None] if len(rows) == 1 else jax.lax.map(one, rows)
        n, w = found.shape[-2:]
        return found.reshape(b // k, t, k, n, w).swapaxes(1, 2).reshape(b, t * n, w)

    def read_images(
        self,
        state: dict[str, Any],
        data: Pools,
        images: Int32[Array, "b"],
        tiles: int,
        length: int,
        at_once: int | None = None,
    ) -> Cache:
        """Keys and values of the prefixes, using their first `tiles` tiles and `length` tokens."""
        features = self.features(state, data, data.tile_index[images, :tiles], at_once)
        ids = shard_batch(data.prefix[images, :length], self.mesh)
        apply: Any = self.module.apply
        return apply(state, features, ids, method="prefix")

    def logits(
        self,
        state: dict[str, Any],
        data: Pools,
        cache: Cache,
        images: Int32[Array, "b"],
        texts: Int32[Array, "b c"],
        length: int,
    ) -> Float[Array, "b c vocabulary"]:
        """Logits of the first answer token of each question, using its first `length` tokens."""
        place = partial(shard_batch, mesh=self.mesh)
        ids = place(data.question[texts, :length])
        lengths = place(data.question_length[texts])
        apply: Any = self.module.apply
        starts = place(data.prefix_length[images])
        return apply(state, cache, starts, ids, lengths, method="answers")

    def probability(self, logits: Float[Array, "*b vocabulary"]) -> Float[Array, "*b"]:
        """P("Yes"), among all tokens or between the two answers."""
        yes, no = self.answers
        if self.normalise == "answers":
            return jax.nn.sigmoid(logits[..., yes] - logits[..., no])
        return jnp.exp(logits[..., yes] - jax.nn.logsumexp(logits, axis=-1))


@partial(jax.jit, static_argnames=("vqa", "tiles", "length"))
def _read_images(
    vqa: VQA, state: Any, data: Pools, images: Int32[Array, "b"], tiles: int, length: int
) -> Cache:
    # The attention between the patches of a tile takes most memory. On the CPU one tile per device
    # occupies all cores already.
    at_once = vqa.mesh.size if jax.default_backend() == "cpu" else None
    return vqa.read_images(state, data, images, tiles, length, at_once)


@partial(jax.jit, static_argnames=("vqa", "length"))
def _probabilities(
    vqa: VQA,
    state: Any,
    data: Pools,
    cache: Cache,
    images: Int32[Array, "b"],
    texts: Int32[Array, "b c"],
    length: int,
) -> Float32[Array, "b c"]:
    logits = vqa.logits(state, data, cache, images, texts, length)
    return jax.lax.with_sharding_constraint(vqa.probability(logits), replicated(vqa.mesh))


@dataclass(frozen=True, eq=False)
class Batch:
    """Images with the same number of tiles, and the pairs to score for each."""

    images: Int32[np.ndarray, "b"]
    pairs: list[list[int]]  # positions in the list of pairs, per image
    tiles: int
    length: int  # of the longest prefix


def score_pairs(
    vqa: VQA,
    state: dict[str, Any],
    data: Pools,
    sizes: Sizes,
    pairs: Int32[np.ndarray, "pair 2"],
    batch_size: int,
) -> Float32[np.ndarray, "pair"]:
    """P("Yes") of every (image, caption) pair, given as positions in the pools."""
    scores = np.empty(len(pairs), np.float32)
    for batch in batches(sizes, pairs, batch_size, vqa.mesh.size):
        images = jnp.asarray(batch.images)
        cache = _read_images(vqa, state, data, images, batch.tiles, batch.length)
        found = []
        for chunk in question_chunks(batch.pairs):
            longest = int(sizes.question[pairs[chunk, 1]].max())
            length = min(round_up(longest, 2 * QUESTION_BUCKET), data.question.shape[1])
            texts = jnp.asarray(pairs[chunk, 1])
            found.append((chunk, _probabilities(vqa, state, data, cache, images, texts, length)))
        for chunk, values in found:  # by now all of them are dispatched to the device
            scores[chunk] = np.asarray(values)
    return scores


def batches(
    sizes: Sizes, pairs: Int32[np.ndarray, "pair 2"], batch_size: int, devices: int
) -> Iterator[Batch]:
    """Group images by number of tiles and sort by question length, so that few shapes occur."""
    wanted: dict[int, list[int]] = {}
    for position, image in enumerate(pairs[:, 0].tolist()):
        wanted.setdefault(image, []).append(position)
    for positions in wanted.values():
        positions.sort(key=lambda p: int(sizes.question[pairs[p, 1]]))
    by_tiles: dict[int, list[int]] = {}
    for image in wanted:
        by_tiles.setdefault(int(sizes.tiles[image]), []).append(image)
    for tiles, images in sorted(by_tiles.items()):
        images.sort(key=lambda i: (len(wanted[i]), int(sizes.question[pairs[wanted[i][-1], 1]])))
        size = round_up(min(batch_size, len(images)), devices)
        length = int(sizes.prefix[images].max())
        for start in range(0, len(images), size):
            rows = images[start : start + size]
            rows += rows[-1:] * (size - len(rows))  # the same shape for all batches
            asked = [wanted[image] for image in rows]
            yield Batch(np.asarray(rows, np.int32), asked, tiles, length)


def question_chunks(asked: list[list[int]]) -> Iterator[Int32[np.ndarray, "b c"]]:
    """Yield a few pairs of each image at a time; images with fewer pairs repeat their last."""
    most = max(len(positions) for positions in asked)
    width = min(most, QUESTIONS_AT_ONCE)
    for start in range(0, most, width):
        rows = [positions[start : start + width] or positions[-1:] for positions in asked]
        yield np.asarray([row + row[-1:] * (width - len(row)) for row in rows], np.int32)
