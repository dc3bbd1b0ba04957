"""`load_model` opens every kind of checkpoint: it looks at what it was given."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import jax

from ttm_jax.bucket_storage import address_of, fetched, is_address
from ttm_jax.errors import InputError
from ttm_jax.inputs.open_clip_files import is_open_clip
from ttm_jax.inputs.tokenize import Canonicalise
from ttm_jax.models.jaxlib_check import check_jaxlib
from ttm_jax.models.transformer import Compute
from ttm_jax.runs.locate import MODEL, is_run, run_of
from ttm_jax.runs.read.fields import Fields, Place
from ttm_jax.runs.read.identity import read_identity
from ttm_jax.scorers.contrastive.from_checkpoint import from_checkpoint
from ttm_jax.scorers.contrastive.model import ContrastiveModel
from ttm_jax.scorers.vqa.model import Normalise, VQAModel, VQASettings
from ttm_jax.weights import big_vision, hub, idefics3, model_folders

DEFAULT_COMPUTE = Compute()
_SHIPPED = Path(__file__).parent / "small" / "models"
# Models that ship with the package, trained by `experiments.pretrain_small`.
SMALL = {"small-siglip": _SHIPPED / "siglip", "small-clip": _SHIPPED / "clip"}


def load_model(
    source: str | Path,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    image_size: int | None = None,
    resize: Literal["pil", "big_vision"] = "pil",
    canonicalise: Canonicalise | None = None,
    files_from: str | Path | None = None,
    compute: Compute = DEFAULT_COMPUTE,
) -> ContrastiveModel | VQAModel:
    """Load an image-text model from any supported kind of checkpoint.

    Args:
        source: A small model of the package (`"small-siglip"`, `"small-clip"`), a hub id such as
            `"google/siglip-base-patch16-224"` or `"HuggingFaceTB/SmolVLM-256M-Instruct"`, a Hugging
            Face folder, a folder of OpenCLIP's, a big_vision `.npz` (a path or a URL such as
            `gs://...`), the folder of a run, whose last checkpoint is loaded, or the folder that
            `ttm adapt` has written.
        revision: Branch, tag or commit of a hub id; the main branch if None.
        offline: True never uses the network, False does; None follows `HF_HUB_OFFLINE`.
        image_size: Resample the position embeddings for this image size instead of the
            checkpoint's own.
        resize: How images are resized: as transformers does it with Pillow, or as big_vision does.
        canonicalise: How captions are cleaned: as transformers, big_vision or OpenCLIP does it.
            None follows `resize`. OpenCLIP's own folders say it themselves.
        files_from: Hugging Face folder or hub id that provides the tokenizer and image settings,
            which an `.npz` does not contain. For OpenCLIP's folders, the tokenizer only.
        compute: Dtype and precision of the computation, and what the backward pass recomputes.

    Returns:
        A `ContrastiveModel` for SigLIP and CLIP, a `VQAModel` for SmolVLM. Both have `score`, to
        score images against captions, and `save`, to write a Hugging Face folder.

    Raises:
        InputError: The source does not exist, is not supported, or does not fit the model.

    Examples:
        >>> from ttm_jax import load_model
        >>> from ttm_jax.data import world
        >>> model = load_model("small-siglip")
        >>> images = world.make("color_swap", groups=1).images
        >>> model.score(images, ["an orange heart", "a purple heart", "a star"]).shape
        (2, 3)
    """
    check_jaxlib()
    source = address_of(source) if is_address(source) else str(source)
    if is_address(source) and not source.endswith(".npz"):  # hub.py fetches those
        return _from_bucket(
            source,
            image_size=image_size,
            resize=resize,
            canonicalise=canonicalise,
            files_from=files_from,
            compute=compute,
        )
    inside = _inside(Path(source).expanduser())
    if inside is not None and is_run(inside):
        return load_run(inside, resize=resize, canonicalise=canonicalise, compute=compute)
    source = source if inside is None else str(inside)
    path = _find(source, revision, offline)
    if path.is_file() and path.suffix != ".npz":
        raise InputError(f"{source} is a file; expected the folder that holds it, or an .npz file")
    if idefics3.is_idefics3(path):
        if image_size is not None or resize != "pil" or canonicalise is not None:
            raise InputError(
                f"{source} has a fixed image size, resizing and text; give none of them"
            )
        files = None if files_from is None else _find(str(files_from), None, offline)
        return VQAModel.from_folder(path, source, files_from=files, compute=compute)
    if path.suffix == ".npz":
        checkpoint = big_vision.load(path, compute=compute, image_size=image_size)
        folder = None
    else:
        checkpoint = model_folders.load(path, compute=compute, image_size=image_size)
        folder = path
    files = None if files_from is None else _find(str(files_from), None, offline)
    if folder is None or (files is not None and not is_open_clip(folder)):
        folder = files
    return from_checkpoint(checkpoint, folder, source, resize, files or folder, canonicalise)


def _from_bucket(source: str, **settings: Any) -> ContrastiveModel | VQAModel:
    """A folder in a bucket: downloaded once, and known by its address."""
    address = address_of(source)
    model = load_model(fetched(address), **settings)
    return replace(model, source=address)


def _inside(path: Path) -> Path | None:
    """The model or run that a folder stands for, if that is not simply the folder itself."""
    if not path.is_dir() or (path / "config.json").is_file() or is_open_clip(path):
        return path if is_run(path) else None
    if (path / MODEL / "config.json").is_file() or is_open_clip(path / MODEL):
        return path / MODEL  # what `ttm adapt` has written: complete, whatever became of the base
    return run_of(path)


def _find(source: str, revision: str | None, offline: bool | None) -> Path:
    """The local path of a shipped model, a path or a hub id."""
    if source in SMALL:
        return SMALL[source]
    return hub.resolve(source, revision=revision, offline=offline)


def load_run(
    path: Path,
    iteration: int | None = None,
    *,
    base: str | None = None,
    resize: Literal["pil", "big_vision"] = "pil",
    canonicalise: Canonicalise | None = None,
    compute: Compute = DEFAULT_COMPUTE,
) -> ContrastiveModel | VQAModel:
    """The model of a run folder after an iteration (default: the last that has a checkpoint).

    `base` names the model that the run started from, if it is an address (`gs://...`) or has moved:
    an address that only the run folder names is refused.
    """
    from ttm_jax.runs.checkpoints import read_arrays
    from ttm_jax.training.trainable import merge_params, split_params, state_leaves, variables

    settings = read_identity(path)
    source, config = settings["model"]["source"], settings["config"]
    if source == "memory" and base is None:
        raise InputError(
            f"{path} was started from a model in memory, which has no files to load; "
            "start the run from a model loaded with load_model"
        )
    if is_run(Path(source)) and Path(source).resolve() == path.resolve():
        raise InputError(f"{path / 'config.json'} names the run itself as its model")
    if base is None and source not in SMALL:
        hub.check_recorded(source)  # a folder from somebody else must not choose an address
    start = load_model(base or source, resize=resize, canonicalise=canonicalise, compute=compute)
    split = split_params(start.params, config["train"], config["lora_rank"])
    like: dict[str, Any] = jax.eval_shape(variables, split.trained, split.frozen)
    tree = read_arrays(path / "checkpoints", like, iteration)
    params = merge_params(state_leaves(tree), {})
    if isinstance(start, VQAModel):
        model = Fields(settings["model"], Place(path / "config.json"), "model")
        asked = _asked(model.nested("scoring"))
        return replace(start, params=params, source=str(path), settings=asked)
    return replace(start, params=params, source=str(path))


def _asked(found: Fields) -> VQASettings:
    """The VQA settings recorded in a run."""
    answers = found.strings("answers")
    if len(answers) != 2:
        raise found.refuse("answers", "two strings")
    normalise: Any = found.one_of("normalise", get_args(Normalise))
    splitting = found.boolean("splitting") if found.known("splitting") else None
    return VQASettings(found.string("question"), (answers[0], answers[1]), normalise, splitting)
