"""The three stages of pretraining: words, reading, together.

1. Words: the image tower and a linear head learn to predict which words and bigrams the caption of
   an image contains (visual n-grams; Li et al., ICCV 2017). The head is then discarded.
2. Reading: the image tower is frozen and its embeddings are computed once. The text tower learns to
   match them with the contrastive loss (Zhai et al., "LiT", CVPR 2022).
3. Together: both towers are trained with the contrastive loss at a small learning rate.

The contrastive loss alone, from scratch, needs a thousand steps to learn colours and several
thousand to learn shapes: too long for a laptop.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int32, UInt8

from ttm_jax.inputs.preprocess import ImageProcessor, normalise
from ttm_jax.models.clip import CLIP
from ttm_jax.models.siglip import SigLIP
from ttm_jax.small.batches import Batches
from ttm_jax.small.ngrams import find_ngrams, label
from ttm_jax.small.recipe import Recipe, Stage
from ttm_jax.training.losses import CONTRASTIVE

Module = SigLIP | CLIP
OnStep = Callable[[int, Array], None]
_WORD_SCALE = 20.0  # embeddings have unit length
_ENCODE = 500


def learn_words(
    recipe: Recipe,
    module: Module,
    params: Any,
    images: UInt8[np.ndarray, "scene h w 3"],
    captions: list[list[str]],
    on_step: OnStep,
) -> Any:
    """Train the image tower to predict words; the text tower is unchanged."""
    known = find_ngrams(captions[0], recipe.ngrams)
    labels = np.stack([label(draw, known) for draw in captions])
    often = np.clip(labels[0].mean(axis=0, dtype=np.float32), 1e-4, 1 - 1e-4)
    head = {
        "kernel": jnp.zeros((recipe.width, len(known))),
        "bias": jnp.asarray(np.log(often / (1 - often))),
    }
    rng = np.random.default_rng([recipe.seed, 1])

    def draw() -> tuple[np.ndarray, np.ndarray]:
        rows = rng.integers(0, recipe.scenes, recipe.batch)
        return images[rows], labels[rng.integers(0, len(labels), recipe.batch), rows]

    def loss(moving: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        tower, head = moving
        found = _encode_images(recipe, module, {**params, "img": tower}, batch[0])
        logits = _WORD_SCALE * found @ head["kernel"] + head["bias"][None]
        wrong = optax.sigmoid_binary_cross_entropy(logits, batch[1].astype(jnp.float32))
        return wrong.sum(axis=1).mean()

    tower, _ = _run(recipe, recipe.words, (params["img"], head), loss, draw, on_step)
    return {**params, "img": tower}


def learn_to_read(
    recipe: Recipe,
    module: Module,
    params: Any,
    images: UInt8[np.ndarray, "scene h w 3"],
    tokens: Int32[np.ndarray, "draw scene length"],
    batches: Batches,
    on_step: OnStep,
) -> Any:
    """Train the text tower, temperature and bias to match the frozen image tower."""
    encode = jax.jit(partial(_encode_images, recipe, module))
    portions = range(0, recipe.scenes, _ENCODE)
    found = np.concatenate([encode(params, images[i : i + _ENCODE]) for i in portions])
    rng = np.random.default_rng([recipe.seed, 2])
    apply: Any = module.apply

    def loss(moving: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        variables = {"params": {**params, **moving}}
        texts = apply(variables, batch[1], method="encode_text")
        return _contrastive(recipe, apply(variables, batch[0], texts, method="logits"))

    moving = {name: value for name, value in params.items() if name != "img"}
    draw = partial(_draw_pairs, recipe, rng, batches, found, tokens)
    return {**params, **_run(recipe, recipe.reading, moving, loss, draw, on_step)}


def learn_together(
    recipe: Recipe,
    module: Module,
    params: Any,
    images: UInt8[np.ndarray, "scene h w 3"],
    tokens: Int32[np.ndarray, "draw scene length"],
    batches: Batches,
    on_step: OnStep,
) -> Any:
    """Train both towers."""
    rng = np.random.default_rng([recipe.seed, 3])
    apply: Any = module.apply

    def loss(params: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        pixels = _normalise(recipe, batch[0])
        return _contrastive(recipe, apply({"params": params}, pixels, batch[1]))

    draw = partial(_draw_pairs, recipe, rng, batches, images, tokens)
    return _run(recipe, recipe.together, params, loss, draw, on_step)


def _draw_pairs(
    recipe: Recipe,
    rng: np.random.Generator,
    batches: Batches,
    pictures: np.ndarray,
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    rows = batches.draw(rng, recipe.batch, recipe.album_share, recipe.album_size)
    return pictures[rows], tokens[rng.integers(0, len(tokens), recipe.batch), rows]


def _normalise(recipe: Recipe, pixels: Array) -> Array:
    processor = ImageProcessor.for_family(recipe.family, recipe.image_size)
    return normalise(pixels, processor.mean, processor.std)


def _encode_images(recipe: Recipe, module: Module, params: Any, pixels: Array) -> Array:
    apply: Any = module.apply
    return apply({"params": params}, _normalise(recipe, pixels), method="encode_image")


def _contrastive(recipe: Recipe, logits: Array) -> Float[Array, ""]:
    return CONTRASTIVE[recipe.family](logits, jnp.ones(len(logits), bool))


def _run(
    recipe: Recipe,
    stage: Stage,
    params: Any,
    loss: Callable[[Any, Any], Array],
    draw: Callable[[], tuple[np.ndarray, np.ndarray]],
    on_step: OnStep,
) -> Any:
    """Minimise the loss over freshly drawn batches."""
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, stage.lr, recipe.warmup, max(stage.steps, recipe.warmup + 1), 0.02 * stage.lr
    )
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, b2=0.98, weight_decay=recipe.weight_decay),
    )

    @partial(jax.jit, donate_argnums=0)
    def step(state: tuple[Any, Any], batch: Any) -> tuple[tuple[Any, Any], Array]:
        value, gradient = jax.value_and_grad(loss)(state[0], batch)
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = optimizer.update(gradient, state[1], state[0])
        return (optax.apply_updates(state[0], updates), moments), value

    own = jax.tree.map(jnp.array, params)  # its buffers are donated; the caller's are not
    state = (own, optimizer.init(own))
    for number in range(1, stage.steps + 1):
        state, value = step(state, draw())
        on_step(number, value)
    return state[0]
