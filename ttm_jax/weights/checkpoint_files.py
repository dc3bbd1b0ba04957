"""Types and helpers shared by all checkpoint formats."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict

from ttm_jax.config import Family
from ttm_jax.errors import InputError
from ttm_jax.models.clip import CLIP, CLIPConfig
from ttm_jax.models.pe_core import PECore, PECoreConfig
from ttm_jax.models.siglip import SigLIP, SigLIPConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.models.two_tower import TwoTower

Shape = tuple[int, ...]
Params = dict[str, Any]
Config = SigLIPConfig | CLIPConfig

DEFAULT_COMPUTE = Compute()
_ALIGNMENT = 64  # bytes: what the CPU backend asks of memory that it shares
_FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Checkpoint:
    """A model loaded from a file: its sizes and parameters (float32, on the host)."""

    family: Family
    config: Config
    params: Params
    source: str


@dataclass(frozen=True)
class Tensors:
    """The named tensors of a file. Shapes are known up front; values are read one at a time."""

    shapes: dict[str, Shape]
    read: Callable[[str], np.ndarray]


def make_checkpoint(config: Config, params: Params, source: str) -> Checkpoint:
    return Checkpoint(family_of(config), config, params, source)


def family_of(config: Config) -> Family:
    return "clip" if isinstance(config, CLIPConfig) else "siglip"


def module_of(config: Config) -> TwoTower:
    """The model that these sizes describe."""
    if isinstance(config, SigLIPConfig):
        return SigLIP(config)
    return PECore(config) if isinstance(config, PECoreConfig) else CLIP(config)


def check_sizes(config: Config, where: str) -> None:
    """Refuse sizes that no model has; those that the tensors contradict come out later."""
    for tower in (config.vision, config.text):
        if min(tower.width, tower.depth, tower.heads, tower.mlp_dim) < 1:
            raise InputError(f"{where}: a tower has no layers, or layers of size 0")
        if tower.width % tower.heads:
            raise InputError(f"{where}: width {tower.width} is not a multiple of its heads")
    if not 1 <= config.patch_size <= config.image_size:
        raise InputError(f"{where}: an image of {config.image_size} has no whole patch")
    # SigLIP's image tower has no projection: its width is the size of the embeddings.
    if isinstance(config, SigLIPConfig) and config.embed_dim != config.vision.width:
        raise InputError(
            f"{where}: images are embedded in {config.vision.width} dimensions, captions in "
            f"{config.embed_dim}; expected the same"
        )


def expected_shapes(config: Config) -> dict[str, Shape]:
    """Name and shape of every parameter of the model that `config` describes."""
    # The compute settings change no shape.
    config = replace(
        config,
        vision=replace(config.vision, compute=DEFAULT_COMPUTE),
        text=replace(config.text, compute=DEFAULT_COMPUTE),
    )
    variables = jax.eval_shape(
        lambda: module_of(config).init(
            jax.random.key(0),
            jnp.zeros((1, *config.image_shape)),
            jnp.zeros((1, config.text_length), jnp.int32),
        )
    )
    return {path: leaf.shape for path, leaf in flatten_dict(variables["params"], sep="/").items()}


def empty_for_device(shape: Shape) -> np.ndarray:
    """A float32 array that the CPU backend of JAX can use where it lies, instead of a copy.

    It must not be written to once it was given to JAX.
    """
    size = 4 * prod(shape)
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(np.float32).reshape(shape)


def read_float(tensors: Tensors, name: str, where: str) -> np.ndarray:
    """Read one tensor in its stored dtype, which must convert to float32 exactly."""
    array = tensors.read(name)
    if array.dtype.name not in _FLOATS:
        raise InputError(
            f"{where}: {name} is stored as {array.dtype.name}, expected one of "
            f"{', '.join(_FLOATS)}; use a checkpoint that is not quantised"
        )
    return array
