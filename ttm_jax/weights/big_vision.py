"""Load and save big_vision's .npz checkpoints of two-tower SigLIP and SigLIP 2.

The parameter tree is the same as ours. Only two things vary: layers are either stacked under
"encoderblock" (big_vision's `scan=True`) or separate as "encoderblock_0", ..., and the tree may be
located under a prefix.
"""

from dataclasses import replace
from itertools import count
from math import isqrt
from pathlib import Path
from typing import Literal

import numpy as np

from ttm_jax.errors import InputError
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.models.transformer import Compute, TowerConfig
from ttm_jax.weights import hub, npz_files
from ttm_jax.weights.checkpoint_files import (
    DEFAULT_COMPUTE,
    Checkpoint,
    Config,
    Params,
    Shape,
    Tensors,
    check_sizes,
    expected_shapes,
    make_checkpoint,
)
from ttm_jax.weights.positions import at_image_size
from ttm_jax.weights.tensor_layout import LAYER, Rule, to_ours, to_theirs

Style = Literal["scan", "unrolled"]

# Possible prefixes of the model's tree: next to optimizer state (optax or older Flax), or none.
_PREFIXES = ("params/", "opt/target/", "")
_VISION, _TEXT = "img/Transformer", "txt/Encoder_0"
_QUERY = "MultiHeadDotProductAttention_0/query/kernel"
_MLP = "MlpBlock_0/Dense_0/kernel"
_TEXT_POSITIONS, _SECOND_POSITIONS = "txt/pos_embedding", "txt/Encoder_0/pos_embedding"
# Our own entry outside the tree: with patch size 14, shapes cannot tell 384 px from 378 px.
_IMAGE_SIZE = "image_size"


def load(
    path_or_url: str | Path, *, compute: Compute = DEFAULT_COMPUTE, image_size: int | None = None
) -> Checkpoint:
    """Load a two-tower file from a local path, or from gs:// if gcsfs is installed.

    All sizes come from the shapes in the file. The image size is the side of the patch grid times
    the patch size; only So400m/14 at 384 px, whose grid covers 378 px, needs `image_size=384`. A
    size with a different grid resamples the position embedding.
    """
    source = str(path_or_url)
    path = hub.fetch(source) if "://" in source else Path(source)
    with npz_files.opened(path) as file:
        tensors = _tree(file)
        styles = {at: _style(tensors.shapes, at) for at in (_VISION, _TEXT)}
        config = _sizes(tensors.shapes, styles, compute, source)
        check_sizes(config, source)
        shapes = expected_shapes(config)
        params = to_ours(_rules(shapes, styles), shapes, tensors, source)
        if _IMAGE_SIZE in file.shapes:
            config = _with_size(config, file.read(_IMAGE_SIZE), source)
    checkpoint = make_checkpoint(config, params, source)
    return checkpoint if image_size is None else at_image_size(checkpoint, image_size)


def _with_size(config: SigLIPConfig, stored: np.ndarray, source: str) -> SigLIPConfig:
    """The image size that the file states; it has to have the patches that are there."""
    size = int(stored) if stored.ndim == 0 and stored.dtype.kind in "iu" else 0
    new = replace(config, image_size=size)
    if size < 1 or new.patches != config.patches:
        patches = isqrt(config.patches)
        raise InputError(
            f"{source}: {_IMAGE_SIZE} is {stored!s:.40}; the position embedding has {patches} x "
            f"{patches} patches of {config.patch_size} px"
        )
    return new


def save(path: str | Path, config: Config, params: Params, style: Style = "scan") -> None:
    """Save a file that big_vision's two-tower model loads; `style` is the layout of its layers."""
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError(f"{path}: the name of a big_vision checkpoint must end in .npz")
    if not isinstance(config, SigLIPConfig):
        raise InputError("big_vision has no CLIP; save this model as a Hugging Face folder")
    if config.max_patches:
        raise InputError("NaFlex models are saved as a Hugging Face folder, not as an npz")
    for tower in (config.vision, config.text):
        if (tower.activation, tower.norm_eps) != ("gelu_tanh", 1e-6):
            raise InputError(
                f"big_vision's towers use tanh gelu and layer norms with eps 1e-6, this one uses "
                f"{tower.activation} and {tower.norm_eps}; save it as a Hugging Face folder"
            )
    shapes = expected_shapes(config)
    tensors = to_theirs(_rules(shapes, {_VISION: style, _TEXT: style}), shapes, params)
    arrays = {f"params/{name}": tensor for name, tensor in tensors.items()}
    npz_files.write(path, {**arrays, _IMAGE_SIZE: np.array(config.image_size, np.int32)})


def _tree(file: Tensors) -> Tensors:
    """The model's parameters under our names, except for the layout of the layers."""
    inside = [p for p in _PREFIXES if f"{p}img/embedding/kernel" in file.shapes]
    prefix = inside[0] if inside else ""
    names = {name.removeprefix(prefix): name for name in file.shapes if name.startswith(prefix)}
    names.pop(_IMAGE_SIZE, None)
    # Some old text towers have two position embeddings; the model uses their sum.
    second = names.pop(_SECOND_POSITIONS, None)

    def read(name: str) -> np.ndarray:
        array = file.read(names[name])
        if name != _TEXT_POSITIONS or second is None:
            return array
        return array.astype(np.float32) + file.read(second).astype(np.float32)

    return Tensors({name: file.shapes[full] for name, full in names.items()}, read)


def _style(shapes: dict[str, Shape], at: str) -> Style:
    return "scan" if f"{at}/encoderblock/{_QUERY}" in shapes else "unrolled"


def _rules(shapes: dict[str, Shape], styles: dict[str, Style]) -> list[Rule]:
    rules = []
    for ours, shape in shapes.items():
        apart = any(
            style == "unrolled" and ours.startswith(f"{at}/encoderblock/")
            for at, style in styles.items()
        )
        theirs = ours.replace("/encoderblock/", f"/encoderblock_{LAYER}/") if apart else ours
        rules.append(Rule(theirs, ours, tuple((axis,) for axis in range(len(shape) - apart))))
    return rules


def _sizes(
    shapes: dict[str, Shape], styles: dict[str, Style], compute: Compute, source: str
) -> SigLIPConfig:
    patch = _shape(shapes, "img/embedding/kernel", 4, source)[0]
    positions = _shape(shapes, "img/pos_embedding", 3, source)[1]
    if isqrt(positions) ** 2 != positions:
        raise InputError(f"{source}: {positions} image positions are not a square grid")
    return SigLIPConfig(
        image_size=isqrt(positions) * patch,
        patch_size=patch,
        vision=_tower(shapes, _VISION, styles[_VISION], compute, source),
        text=_tower(shapes, _TEXT, styles[_TEXT], compute, source),
        vocab_size=_shape(shapes, "txt/Embed_0/embedding", 2, source)[0],
        text_length=_shape(shapes, _TEXT_POSITIONS, 3, source)[1],
        embed_dim=_shape(shapes, "txt/head/kernel", 2, source)[1],
    )


def _tower(
    shapes: dict[str, Shape], at: str, style: Style, compute: Compute, source: str
) -> TowerConfig:
    if style == "scan":
        block, stacked = f"{at}/encoderblock", 1
    else:
        block, stacked = f"{at}/encoderblock_0", 0
    query = _shape(shapes, f"{block}/{_QUERY}", 3 + stacked, source)
    mlp = _shape(shapes, f"{block}/{_MLP}", 2 + stacked, source)
    layers = (n for n in count() if f"{at}/encoderblock_{n}/{_QUERY}" not in shapes)
    return TowerConfig(
        width=query[stacked],
        depth=query[0] if stacked else next(layers),
        heads=query[stacked + 1],
        mlp_dim=mlp[stacked + 1],
        compute=compute,
    )


def _shape(shapes: dict[str, Shape], name: str, rank: int, source: str) -> Shape:
    if name not in shapes or len(shapes[name]) != rank:
        found = f"has shape {list(shapes[name])}" if name in shapes else "is missing"
        raise InputError(f"{source} is not a two-tower SigLIP of big_vision: {name} {found}")
    return shapes[name]
