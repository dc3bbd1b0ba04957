"""What the stages of pretraining share: losses, a linear head, and the training loop."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Float32

from ttm_jax.inputs.preprocess import ImageProcessor, normalise
from ttm_jax.models.clip import CLIP
from ttm_jax.models.siglip import SigLIP
from ttm_jax.small.recipe import Recipe, Stage
from ttm_jax.training.losses import CONTRASTIVE

Module = SigLIP | CLIP
OnStep = Callable[[int, Array], None]
HEAD_SCALE = 20.0  # embeddings have unit length


def new_head(recipe: Recipe, often: Float32[np.ndarray, "label"]) -> dict[str, Array]:
    """A linear head that at first predicts how often each label occurs."""
    often = np.clip(often, 1e-4, 1 - 1e-4)
    return {
        "kernel": jnp.zeros((recipe.width, len(often))),
        "bias": jnp.asarray(np.log(often / (1 - often))),
    }


def head_loss(head: Any, embeddings: Array, labels: Array) -> Float[Array, ""]:
    logits = HEAD_SCALE * embeddings @ head["kernel"] + head["bias"][None]
    wrong = optax.sigmoid_binary_cross_entropy(logits, labels.astype(jnp.float32))
    return wrong.sum(axis=1).mean()


def normalised(recipe: Recipe, pixels: Array) -> Array:
    processor = ImageProcessor.for_family(recipe.family, recipe.image_size)
    return normalise(pixels, processor.mean, processor.std)


def encode_images(recipe: Recipe, module: Module, params: Any, pixels: Array) -> Array:
    apply: Any = module.apply
    return apply({"params": params}, normalised(recipe, pixels), method="encode_image")


def contrastive(recipe: Recipe, logits: Array) -> Float[Array, ""]:
    return CONTRASTIVE[recipe.family](logits, jnp.ones(len(logits), bool))


def fit(
    recipe: Recipe,
    stage: Stage,
    params: Any,
    loss: Callable[[Any, Any], Array],
    draw: Callable[[], tuple[np.ndarray, ...]],
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
