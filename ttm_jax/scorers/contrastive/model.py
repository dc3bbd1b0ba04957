"""CLIP and SigLIP as a user meets them: images and captions in, logits out."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float32, Int32, UInt8

from ttm_jax.config import Family, TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.model_advice import Advice
from ttm_jax.inputs.naflex import SHAPE_BYTES
from ttm_jax.inputs.preprocess import ImageSource
from ttm_jax.inputs.tokenize import CaptionTokenizer
from ttm_jax.matching.caption_prior import CaptionTotals
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.models.clip import CLIPConfig, eos_position
from ttm_jax.models.own import OwnTowers
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.models.two_tower import TwoTower, TwoTowerConfig
from ttm_jax.scorers.contrastive.pixels import Processor, to_float
from ttm_jax.training.sharding import replicated, round_up, shard_batch
from ttm_jax.training.trainable import Params, present
from ttm_jax.weights.checkpoint_files import module_of

if TYPE_CHECKING:
    from ttm_jax.scorers.contrastive.task import ContrastiveTask

_NO_ADVICE = Advice()
_PORTION = 2**26  # numbers of embeddings gathered at a time
_TOTALS = 2**22  # logits in memory at a time
_LENGTH_BUCKET = 8  # CLIP captions are cut to a multiple of this, so that few shapes compile


@dataclass(frozen=True, eq=False)
class ContrastiveModel:
    """A two-tower model with what it needs to read images and captions.

    `processor` and `tokenizer` may be missing for people who bring arrays (`score_arrays`).
    `folder` is where the checkpoint came from; its tokenizer files go along when it is saved.
    """

    family: Family
    config: TwoTowerConfig
    params: Params = field(repr=False)
    processor: Processor | None = field(default=None, repr=False)
    tokenizer: CaptionTokenizer | None = field(default=None, repr=False)
    folder: Path | None = None
    source: str = "memory"
    advice: Advice = field(default=_NO_ADVICE, repr=False)
    """What the folder says about the use of the model."""

    @property
    def module(self) -> TwoTower | OwnTowers:
        assert isinstance(self.config, SigLIPConfig | CLIPConfig)
        return module_of(self.config)

    def with_compute(self, compute: Compute) -> "ContrastiveModel":
        """The same model computing in another dtype, precision or memory regime."""
        config = replace(
            self.config,
            vision=replace(self.config.vision, compute=compute),
            text=replace(self.config.text, compute=compute),
        )
        return replace(self, config=config)

    def save(self, folder: str | Path) -> None:
        """A folder as transformers (or OpenCLIP, if the model comes from there) loads it.

        Tokenizer and image settings go along.
        """
        from ttm_jax.weights import model_folders

        params = jax.tree.map(np.asarray, self.params)
        assert isinstance(self.config, SigLIPConfig | CLIPConfig)
        model_folders.save(Path(folder), self.config, params, extra_files_from=self.folder)

    def score(
        self, images: Sequence[ImageSource], captions: Sequence[str], *, batch_size: int = 0
    ) -> Float32[np.ndarray, "image text"]:
        """Logits of every image against every caption: cosine x exp(scale) (+ bias)."""
        pixels, tokens = self.read_images(images), self.read_captions(captions)
        return self.score_arrays(pixels, tokens, batch_size=batch_size)

    def score_arrays(
        self,
        pixels: Float32[np.ndarray, "n ..."] | UInt8[np.ndarray, "n ..."],
        token_ids: Int32[np.ndarray, "m length"],
        *,
        batch_size: int = 0,
    ) -> Float32[np.ndarray, "n m"]:
        """The same from arrays: float32 pixels are taken as normalised, uint8 ones are not."""
        self.check_arrays(pixels, token_ids)
        batch_size = batch_size or default_batch_size()
        image_rows, image_inverse = distinct_rows(pixels)
        text_rows, text_inverse = distinct_rows(token_ids)
        variables = {"params": jax.tree.map(_on_device, present(self.params))}
        images = encode(self, "image", variables, jnp.asarray(pixels[image_rows]), batch_size)
        ids = self.shorten(token_ids[text_rows])
        texts = encode(self, "text", variables, jnp.asarray(ids), batch_size)
        every = Block(("all",), _row(len(image_rows)), _row(len(text_rows)))
        logits = group_scores(self, variables, images, texts, every)[0]
        return logits[image_inverse][:, text_inverse]

    def read_images(self, images: Sequence[ImageSource] | np.ndarray) -> np.ndarray:
        """Files or pictures to uint8 [n, S, S, 3] (NaFlex: patches); ready arrays pass through."""
        if isinstance(images, np.ndarray) and images.ndim == 1 + len(self.config.image_shape):
            return images
        if self.processor is None:
            raise InputError("this model has no image processor: give arrays to score_arrays")
        return self.processor.batch(list(images))

    def read_captions(self, captions: Sequence[str] | np.ndarray) -> Int32[np.ndarray, "n length"]:
        if isinstance(captions, np.ndarray) and captions.dtype.kind in "iu":
            return captions.astype(np.int32)
        if self.tokenizer is None:
            raise InputError("this model has no tokenizer: give token ids to score_arrays")
        texts = list(captions)
        self.advice.warn_foreign(texts)
        return self.tokenizer(texts).ids

    def shorten(self, ids: Int32[np.ndarray, "n length"]) -> Int32[np.ndarray, "n short"]:
        """Cut CLIP captions to the longest present: exact, because the tower is causal."""
        if not isinstance(self.config, CLIPConfig) or not len(ids):
            return ids
        ends = np.asarray(eos_position(jnp.asarray(ids), self.config.eos_token_id))
        length = -(-(int(ends.max()) + 1) // _LENGTH_BUCKET) * _LENGTH_BUCKET
        return ids[:, : min(length, ids.shape[1])]

    def release(self) -> None:
        """Let the parameters go; the model is of no use afterwards."""
        self.params.clear()

    def check_arrays(self, pixels: np.ndarray, token_ids: np.ndarray) -> None:
        """Refuse shapes and ids that the model cannot mean."""
        c = self.config
        expected, what = c.image_shape, "height x width x RGB"
        if len(expected) == 2:
            what = "patches x values, as inputs/naflex.py packs them"
            if pixels.dtype == np.uint8:
                expected = expected[0], c.patch_size**2 * 3 + SHAPE_BYTES
        if pixels.shape[1:] != expected:
            raise InputError(
                f"images have shape {pixels.shape[1:]}; this model takes {expected}, {what}"
            )
        if token_ids.shape[1] > c.text_length:
            raise InputError(
                f"captions have {token_ids.shape[1]} tokens; this model takes at most "
                f"{c.text_length}"
            )
        if token_ids.size and not 0 <= token_ids.min() <= token_ids.max() < c.vocab_size:
            raise InputError(
                f"token ids run from {token_ids.min()} to {token_ids.max()}; this model's "
                f"vocabulary is 0 to {c.vocab_size - 1}: is it the tokenizer of another model?"
            )

    def bind(
        self, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int
    ) -> "ContrastiveTask":
        """This model on this dataset, as the Test-Time Matching loop wants it."""
        from ttm_jax.scorers.contrastive.task import bind

        return bind(self, dataset, config, mesh, seed)


def _on_device(leaf: Any) -> Array:
    """The CPU backend reads a leaf that was loaded from a file where it lies, without a copy."""
    return leaf if isinstance(leaf, jax.Array) else jax.device_put(leaf, jax.devices()[0])


def _row(count: int) -> Int32[np.ndarray, "1 n"]:
    return np.arange(count, dtype=np.int32)[None]


def default_batch_size() -> int:
    """Small on the CPU, where a batch should stay near the caches; large on accelerators."""
    return 16 if jax.default_backend() == "cpu" else 128


def distinct_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the distinct rows, and for each row which of them it is."""
    position: dict[bytes, int] = {}
    rows: list[int] = []
    inverse: list[int] = []
    for index, row in enumerate(x):
        key = hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
        if key not in position:
            position[key] = len(rows)
            rows.append(index)
        inverse.append(position[key])
    return np.asarray(rows, np.int64), np.asarray(inverse, np.int64)


def encode(
    model: ContrastiveModel,
    side: Literal["image", "text"],
    variables: dict[str, Any],
    pool: Array,
    batch_size: int,
    mesh: Mesh | None = None,
) -> Float[Array, "n e"]:
    """Embeddings of a whole pool, in batches of one shape, without waiting for the device."""
    count = pool.shape[0]
    batches = max(1, -(-count // batch_size))
    batch_size = round_up(-(-count // batches), mesh.size if mesh else 1)  # the last one full too
    parts = [
        _encode_batch(model.module, side, model.processor, variables, pool, start, batch_size, mesh)
        for start in range(0, count, batch_size)
    ]
    return jnp.concatenate(parts)[:count]


@partial(jax.jit, static_argnames=("module", "side", "processor", "batch_size", "mesh"))
def _encode_batch(
    module: TwoTower | OwnTowers,
    side: str,
    processor: Processor | None,
    variables: dict[str, Any],
    pool: Array,
    start: int | Array,
    batch_size: int,
    mesh: Mesh | None,
) -> Float[Array, "b e"]:
    rows = jnp.minimum(start + jnp.arange(batch_size), pool.shape[0] - 1)
    batch = pool[rows] if mesh is None else shard_batch(pool[rows], mesh)
    apply: Any = module.apply
    if side == "text":
        return apply(variables, batch, method="encode_text")
    return apply(variables, to_float(batch, processor), method="encode_image")


def group_scores(
    model: ContrastiveModel,
    variables: dict[str, Any],
    images: Float[Array, "n e"],
    texts: Float[Array, "m e"],
    block: Block,
    mesh: Mesh | None = None,
) -> Float32[np.ndarray, "group image text"]:
    """Logits within every group of a block, on the host; a portion of the groups at a time."""
    per_group = sum(block.shape) * images.shape[1]
    portion = max(1, min(len(block), _PORTION // per_group))
    parts = []
    for start in range(0, len(block), portion):
        rows = np.minimum(start + np.arange(portion), len(block) - 1)  # one shape for all portions
        index = block.image_index[rows], block.text_index[rows]
        part = np.asarray(_group_logits(model.module, variables, images, texts, *index, mesh))
        parts.append(part[: len(block) - start])
    return np.concatenate(parts)


def embeddings_of(
    model: ContrastiveModel,
    variables: dict[str, Any],
    images: Float[Array, "n e"],
    texts: Float[Array, "m e"],
    block: Block,
    mesh: Mesh | None = None,
) -> Embeddings:
    """The logits of the only group of a block, without computing them."""
    params = variables["params"]
    bias = 0.0 if params.get("b") is None else float(np.asarray(params["b"]).reshape(()))
    return Embeddings(
        _rows(images, block.image_index[0], mesh),
        _rows(texts, block.text_index[0], mesh),
        scale=float(np.asarray(jnp.exp(params["t"])).reshape(())),
        bias=bias,
        mesh=mesh,
        precision=model.config.text.compute.precision,
    )


@partial(jax.jit, static_argnames=("mesh",))
def _rows(
    pool: Float[Array, "n e"], index: Int32[Array | np.ndarray, " m"], mesh: Mesh | None
) -> Float[Array, "m e"]:
    rows = pool[index]
    return rows if mesh is None else jax.lax.with_sharding_constraint(rows, replicated(mesh))


def caption_totals(
    model: ContrastiveModel,
    variables: dict[str, Any],
    images: Float[Array, "n e"],
    texts: Float[Array, "m e"],
    mesh: Mesh | None = None,
) -> CaptionTotals:
    """Sums over all images of each caption's logits and of their squares.

    A portion of the images at a time; portions are added in float64.
    """
    count, captions = images.shape[0], texts.shape[0]
    portion = max(1, min(count, _TOTALS // captions))
    every = np.arange(captions, dtype=np.int32)[None]
    sums, squares = np.zeros(captions), np.zeros(captions)
    for start in range(0, count, portion):
        rows = np.minimum(start + np.arange(portion), count - 1)[None].astype(np.int32)
        found = _group_logits(model.module, variables, images, texts, rows, every, mesh)
        logits = np.asarray(found)[0, : count - start].astype(np.float64)
        sums += logits.sum(axis=0)
        squares += (logits * logits).sum(axis=0)
    return CaptionTotals(count, sums, squares)


@partial(jax.jit, static_argnames=("module", "mesh"))
def _group_logits(
    module: TwoTower | OwnTowers,
    variables: dict[str, Any],
    images: Float[Array, "n e"],
    texts: Float[Array, "m e"],
    image_index: Int32[Array | np.ndarray, "group image"],
    text_index: Int32[Array | np.ndarray, "group text"],
    mesh: Mesh | None,
) -> Float[Array, "group image text"]:
    logits: Any = partial(module.apply, variables, method="logits")
    scores = jax.vmap(logits)(images[image_index], texts[text_index])
    return scores if mesh is None else jax.lax.with_sharding_constraint(scores, replicated(mesh))
