"""What every format of checkpoint has in common: where tensors come from and what comes out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict

from ttm_jax.errors import InputError
from ttm_jax.models.clip import CLIP, CLIPConfig
from ttm_jax.models.siglip import SigLIP, SigLIPConfig
from ttm_jax.models.transformer import Compute

Shape = tuple[int, ...]
Params = dict[str, Any]
Config = SigLIPConfig | CLIPConfig

DEFAULT_COMPUTE = Compute()
_FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Checkpoint:
    """A model as it came out of a file: its sizes and its parameters (float32, on the host)."""

    family: Literal["siglip", "clip"]
    config: Config
    params: Params
    source: str


@dataclass(frozen=True)
class Tensors:
    """The named tensors of a file. Shapes are known at once, values are read one at a time."""

    shapes: dict[str, Shape]
    read: Callable[[str], np.ndarray]


def make_checkpoint(config: Config, params: Params, source: str) -> Checkpoint:
    return Checkpoint(family_of(config), config, params, source)


def family_of(config: Config) -> Literal["siglip", "clip"]:
    return "clip" if isinstance(config, CLIPConfig) else "siglip"


def expected_shapes(config: Config) -> dict[str, Shape]:
    """Every parameter of the model that `config` describes: the model itself is asked."""
    # How it computes changes no shape.
    config = replace(
        config,
        vision=replace(config.vision, compute=DEFAULT_COMPUTE),
        text=replace(config.text, compute=DEFAULT_COMPUTE),
    )
    model = CLIP(config) if isinstance(config, CLIPConfig) else SigLIP(config)
    size, length = config.image_size, config.text_length
    variables = jax.eval_shape(
        lambda: model.init(
            jax.random.key(0),
            jnp.zeros((1, size, size, 3)),
            jnp.zeros((1, length), jnp.int32),
        )
    )
    return {path: leaf.shape for path, leaf in flatten_dict(variables["params"], sep="/").items()}


def read_float(tensors: Tensors, name: str, where: str) -> np.ndarray:
    """One tensor in the type that it is stored in, which has to fit into float32 exactly."""
    array = tensors.read(name)
    if array.dtype.name not in _FLOATS:
        raise InputError(
            f"{where}: {name} is stored as {array.dtype.name}; only {', '.join(_FLOATS)} are "
            "read: use a checkpoint that is not quantised"
        )
    return array
