"""Helpers of the parity tests: run one of our models on given arrays, compiled quickly."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ttm_jax.models.two_tower import TwoTower
from ttm_jax.weights.checkpoint_files import Checkpoint, module_of

# For tiny models compilation dominates, and the results do not depend on its optimisation level.
quick_jit = partial(
    jax.jit,
    compiler_options={
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
    },
)


def model_of(checkpoint: Checkpoint) -> TwoTower:
    return module_of(checkpoint.config)


def run(checkpoint: Checkpoint, pixels: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Embeddings and logits [image, text]."""
    model = model_of(checkpoint)

    @quick_jit
    def forward(params, pixels, ids):
        variables = {"params": params}
        image = model.apply(variables, pixels, method="encode_image")
        text = model.apply(variables, ids, method="encode_text")
        logits = model.apply(variables, image, text, method="logits")
        return {"image": image, "text": text, "logits": logits}

    out = forward(checkpoint.params, jnp.asarray(pixels), jnp.asarray(ids))
    return {name: np.asarray(array) for name, array in out.items()}
