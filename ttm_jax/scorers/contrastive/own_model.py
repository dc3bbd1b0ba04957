"""A model that is none of ours: two functions in JAX, their parameters, and how they read data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh
from jaxtyping import Int32
from PIL import Image

from ttm_jax.config import Family, TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageProcessor
from ttm_jax.models.own import LEAVES, UNKNOWN, Encode, OwnConfig, OwnTowers
from ttm_jax.scorers.contrastive.model import ContrastiveModel

if TYPE_CHECKING:
    from ttm_jax.scorers.contrastive.task import ContrastiveTask

Tokenize = Callable[[list[str]], Any]
Colour = tuple[float, float, float]
_ANY_ID = 2**31 - 1
_STORED = "params/"  # beside the optimizer's state
_KINDS: dict[str, Any] = {"squash": "squash", "crop": "shorter_side+center_crop"}


@dataclass(frozen=True, eq=False)
class OwnModel(ContrastiveModel):
    """A `ContrastiveModel` made by `own_model`."""

    tokenize: Tokenize | None = field(default=None, repr=False)

    @property
    def own_config(self) -> OwnConfig:
        assert isinstance(self.config, OwnConfig)
        return self.config

    @property
    def module(self) -> OwnTowers:
        return OwnTowers(self.own_config)

    @property
    def tree(self) -> Any:
        """The parameters as the functions take them; of `result.model`, the adapted ones."""
        return self.own_config.tree(self.params[LEAVES])

    @property
    def logit_scale(self) -> float:
        """What cosines are multiplied by."""
        return float(np.exp(np.asarray(self.params["t"])[0]))

    @property
    def logit_bias(self) -> float:
        """What is added to that."""
        return float(np.asarray(self.params["b"])[0]) if self.own_config.has_bias else 0.0

    def save(self, folder: str | Path) -> None:
        """Refused: only the people who wrote the functions know a format for their parameters."""
        raise InputError(
            f"a model of your own has no Hugging Face format to write to {folder}; store "
            "`model.tree` as you store your parameters, or load them from the run with `from_run`"
        )

    def from_run(self, run_dir: str | Path, iteration: int | None = None) -> "OwnModel":
        """This model with the parameters of a run that was started from it.

        Args:
            run_dir: The folder that was given to `run_ttm`.
            iteration: After which iteration; None is the last that has a checkpoint.

        Returns:
            A new model.

        Raises:
            InputError: There is no such checkpoint, or it is one of another model.
        """
        from ttm_jax.weights import orbax_files

        own = {name: leaf.shape for name, leaf in flatten_dict(self.params, sep="/").items()}
        step = orbax_files.find_step(Path(run_dir) / "checkpoints", iteration)
        with orbax_files.opened(step) as stored:
            there = {
                name.removeprefix(_STORED): shape
                for name, shape in stored.shapes.items()
                if name.startswith(_STORED)
            }
            for name in sorted(own.keys() | there.keys()):
                if own.get(name) != there.get(name):
                    raise InputError(
                        f"{run_dir} holds another model: {name} is {there.get(name, 'absent')} "
                        f"there and {own.get(name, 'absent')} here"
                    )
            found = {name: stored.read(_STORED + name) for name in own}
        return replace(self, params=unflatten_dict(found, sep="/"))

    def read_captions(self, captions: Sequence[str] | np.ndarray) -> Int32[np.ndarray, "n length"]:
        if self.tokenize is None or isinstance(captions, np.ndarray):
            return super().read_captions(captions)
        return _ids(self.tokenize, list(captions), self.config.text_length)

    def bind(
        self, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int
    ) -> "ContrastiveTask":
        if config.train != "all":
            raise InputError(
                f"train is {config.train!r}, but nothing is known of the parts of your model; "
                "close over what is to stay as it is, and train all of the rest"
            )
        if config.dtype != "float32" or config.train_dtype not in (None, "float32"):
            raise InputError("dtype is bfloat16; your functions decide what they compute in")
        return super().bind(dataset, config, mesh, seed)


def own_model(
    encode_image: Encode,
    encode_text: Encode,
    params: Any,
    *,
    image_size: int,
    tokenizer: Tokenize | None = None,
    text_length: int | None = None,
    loss: str = "siglip",
    logit_scale: float | None = None,
    logit_bias: float | None = None,
    mean: Colour = (0.5, 0.5, 0.5),
    std: Colour = (0.5, 0.5, 0.5),
    resize: str = "squash",
) -> OwnModel:
    """Make two functions of yours a model for `run_ttm`, `diagnose`, `simple_match` and `score`.

    The functions are called inside `jax.jit`. They are compiled once for equal functions: define
    them once, not in a loop.

    Args:
        encode_image: Makes embeddings `[n, e]` of the parameters and of normalised pixels, float32
            `[n, image_size, image_size, 3]`. They are brought to length 1 afterwards.
        encode_text: Makes embeddings `[m, e]` of the parameters and of token ids, int32
            `[m, length]`.
        params: What is trained: any pytree of floating-point arrays. Close over everything else.
        image_size: Height and width of the pictures.
        tokenizer: Makes token ids of a list of captions: `[m, length]`, always of the same length.
            None if the data are arrays (`GroupedDataset.from_arrays`).
        text_length: That length, where there is no tokenizer to try.
        loss: `"siglip"` (sigmoid) or `"clip"` (softmax): the contrastive loss to train with.
        logit_scale: What cosines are multiplied by; 10 for the sigmoid and 1 / 0.07 for the softmax
            if None. Trained along, like the bias.
        logit_bias: What is added; -10 for the sigmoid if None, and only the sigmoid has one.
        mean: Pixels are divided by 255, less this mean,
        std: divided by this.
        resize: `"squash"` makes pictures square as SigLIP does, `"crop"` cuts the middle out of
            them as CLIP does; bicubic.

    Returns:
        The model. `model.tree` are the parameters again; `model.from_run` loads those of a run.

    Raises:
        InputError: A leaf is not a floating-point array, or a function does not make embeddings.

    Examples:
        >>> import jax.numpy as jnp, numpy as np
        >>> import ttm_jax
        >>> from ttm_jax.data import world
        >>> def see(params, pixels):
        ...     return pixels.mean(axis=(1, 2)) @ params["image"]
        >>> def read(params, ids):
        ...     return params["text"][ids].mean(axis=1)
        >>> def letters(captions):
        ...     return [[ord(letter) % 128 for letter in text[:20].ljust(20)] for text in captions]
        >>> weights = np.random.default_rng(0)
        >>> params = {
        ...     "image": jnp.asarray(weights.normal(size=(3, 4)), jnp.float32),
        ...     "text": jnp.asarray(weights.normal(size=(128, 4)), jnp.float32),
        ... }
        >>> model = ttm_jax.own_model(see, read, params, image_size=8, tokenizer=letters)
        >>> model.score(world.make("color_swap", groups=1).images, ["red", "blue", "a star"]).shape
        (2, 3)
    """
    if loss not in ("siglip", "clip"):
        raise InputError(f"loss is {loss!r}; expected 'siglip' or 'clip'")
    if loss == "clip" and logit_bias is not None:
        raise InputError("a softmax does not see a bias; give logit_bias with loss='siglip' only")
    if resize not in _KINDS:
        raise InputError(f"resize is {resize!r}; expected one of {', '.join(_KINDS)}")
    scale = logit_scale if logit_scale is not None else {"siglip": 10.0, "clip": 1 / 0.07}[loss]
    if not 0 < scale < np.inf:
        raise InputError(f"logit_scale is {scale}; expected a number above 0, not its logarithm")
    names, length = _names(params), text_length
    if tokenizer is not None:
        length = _ids(tokenizer, ["a picture", "two"], None).shape[1]
    if not length:
        raise InputError("give a tokenizer, or the text_length of captions that are token ids")
    family: Family = "siglip" if loss == "siglip" else "clip"
    config = OwnConfig(
        image_size=image_size,
        patch_size=image_size,
        vision=UNKNOWN,
        text=UNKNOWN,
        vocab_size=_ANY_ID,
        text_length=length,
        embed_dim=_embedding_size(encode_image, encode_text, params, image_size, length),
        image_function=encode_image,
        text_function=encode_text,
        family=family,
        has_bias=family == "siglip",
        structure=jax.tree.structure(params),
        names=names,
    )
    found: dict[str, Any] = {LEAVES: config.leaves(params), "t": np.log([scale]).astype(np.float32)}
    if config.has_bias:
        found["b"] = np.asarray([-10.0 if logit_bias is None else logit_bias], np.float32)
    processor = ImageProcessor(_KINDS[resize], image_size, Image.Resampling.BICUBIC, mean, std)
    return OwnModel(family, config, found, processor, tokenize=tokenizer)


def _names(params: Any) -> tuple[str, ...]:
    """A name for every leaf, as in checkpoints; a leaf that cannot be trained is refused."""
    names = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".").replace("/", ".") or "value"
        is_array = isinstance(leaf, jax.Array | np.ndarray)
        if not is_array or not jnp.issubdtype(leaf.dtype, jnp.floating):
            kind = getattr(leaf, "dtype", type(leaf).__name__)
            raise InputError(
                f"params: {name} is {kind}; expected floating-point arrays only: close over the "
                "rest (equinox.partition, flax.nnx.split)"
            )
        names.append(name)
    if not names:
        raise InputError("params has no arrays: there is nothing to train")
    repeated = len(set(names)) < len(names)
    return tuple(f"{name}.{i}" for i, name in enumerate(names)) if repeated else tuple(names)


def _ids(tokenizer: Tokenize, captions: list[str], length: int | None) -> np.ndarray:
    """Token ids of all captions, as they have to be."""
    try:
        ids = np.asarray(tokenizer(captions))
    except ValueError as error:  # rows of different lengths
        reason = (str(error).splitlines() or ["no array"])[0]
        raise InputError(f"tokenizer: {reason}; pad all captions to one length") from error
    rows = len(captions)
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or ids.shape[0] != rows or not ids.shape[1]:
        raise InputError(
            f"tokenizer gives {ids.dtype} {ids.shape} of {rows} captions; expected integers "
            f"({rows}, length)"
        )
    if length is not None and ids.shape[1] != length:
        raise InputError(f"tokenizer gives {ids.shape[1]} ids per caption; before it gave {length}")
    return ids.astype(np.int32)


def _embedding_size(
    encode_image: Encode, encode_text: Encode, params: Any, image_size: int, length: int
) -> int:
    """The size of the embeddings, of which nothing is computed for this."""
    found = []
    for name, function, shape, dtype in (
        ("encode_image", encode_image, (2, image_size, image_size, 3), np.float32),
        ("encode_text", encode_text, (2, length), np.int32),
    ):
        made = jax.eval_shape(function, params, jax.ShapeDtypeStruct(shape, dtype))
        fits = getattr(made, "ndim", 0) == 2 and made.shape[0] == 2
        if not fits or not jnp.issubdtype(made.dtype, jnp.floating):
            raise InputError(f"{name} makes {made} of an input {shape}; expected embeddings (2, e)")
        found.append(made.shape[1])
    if found[0] != found[1]:
        raise InputError(
            f"encode_image makes embeddings of size {found[0]}, encode_text of size {found[1]}"
        )
    return found[0]
