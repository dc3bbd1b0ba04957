"""One door for every checkpoint: `load_model` looks at what it was given."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jax

from ttm_jax.checkpoint_json import read_optional_json
from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.models.transformer import Compute
from ttm_jax.preprocess import ImageProcessor
from ttm_jax.scorers.contrastive import ContrastiveModel
from ttm_jax.scorers.vqa import VQAModel, VQASettings
from ttm_jax.tokenize import CaptionTokenizer, load_tokenizer
from ttm_jax.weights import big_vision, hub, huggingface, idefics3
from ttm_jax.weights.checkpoint_files import Checkpoint

DEFAULT_COMPUTE = Compute()
_SHIPPED = Path(__file__).parent / "small" / "models"
# Models that come with the package, made by `experiments.pretrain_small`.
SMALL = {"small-siglip": _SHIPPED / "siglip", "small-clip": _SHIPPED / "clip"}


def load_model(
    source: str | Path,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    image_size: int | None = None,
    resize: Literal["pil", "big_vision"] = "pil",
    files_from: str | Path | None = None,
    compute: Compute = DEFAULT_COMPUTE,
) -> ContrastiveModel | VQAModel:
    """A model from a hub id, a Hugging Face folder, a big_vision npz, or a run of ours.

        load_model("google/siglip-base-patch16-224")
        load_model("HuggingFaceTB/SmolVLM-256M-Instruct")
        load_model("gs://big_vision/siglip/webli_en_b16_224_63724782.npz",
                   files_from="google/siglip-base-patch16-224")
        load_model("runs/demo/color_swap_siglip/seed_0")

    An npz has neither tokenizer nor image settings: `files_from` names a folder or hub id that has.
    `image_size` asks for another resolution than the checkpoint's, by resampling its position
    embeddings. `resize` is how pictures are made smaller: as transformers does, or as big_vision.
    """
    source = str(source)
    if is_run(Path(source)):
        return load_run(Path(source), resize=resize, compute=compute)
    path = _find(source, revision, offline)
    if _model_type(path) == idefics3.MODEL_TYPE:
        if image_size is not None or resize != "pil":
            raise InputError(f"{source} has an image size and a resizing of its own; give neither")
        files = None if files_from is None else _find(str(files_from), None, offline)
        return VQAModel.from_folder(path, source, files_from=files, compute=compute)
    if path.suffix == ".npz":
        checkpoint = big_vision.load(path, compute=compute, image_size=image_size)
        folder = None
    else:
        checkpoint = huggingface.load(path, compute=compute, image_size=image_size)
        folder = path
    if files_from is not None:
        folder = _find(str(files_from), None, offline)
    return _model(checkpoint, folder, source, resize)


def _model_type(path: Path) -> Any:
    """What config.json says; None for files, and for folders without one."""
    return read_optional_json(path / "config.json").get("model_type") if path.is_dir() else None


def _find(source: str, revision: str | None, offline: bool | None) -> Path:
    """A local path for whatever was named."""
    if source in SMALL:
        return SMALL[source]
    return hub.resolve(source, revision=revision, offline=offline)


def is_run(path: Path) -> bool:
    return (path / "checkpoints").is_dir() and (path / "config.json").is_file()


def load_run(
    path: Path,
    iteration: int | None = None,
    *,
    resize: Literal["pil", "big_vision"] = "pil",
    compute: Compute = DEFAULT_COMPUTE,
) -> ContrastiveModel | VQAModel:
    """The model of a run folder after an iteration (default: the last that has a checkpoint)."""
    from ttm_jax.checkpoint import Checkpoints
    from ttm_jax.trainable import merge_params, split_params, state_leaves, variables

    settings = read_json(path / "config.json")
    source, config = settings["model"]["source"], settings["config"]
    if source == "memory":
        raise InputError(
            f"{path} was started from a model in memory, which has no files to load; "
            "start the run from a model that load_model has read"
        )
    base = load_model(source, resize=resize, compute=compute)
    split = split_params(base.params, config["train"], config["lora_rank"])
    like: dict[str, Any] = variables(split.trained, split.frozen)
    checkpoints = Checkpoints(path / "checkpoints")
    try:
        tree = checkpoints.restore(jax.tree.map(_shape, like), iteration)
    finally:
        checkpoints.close()
    params = merge_params(state_leaves(tree), {})
    if isinstance(base, VQAModel):
        scoring = settings["model"]["scoring"]
        asked = VQASettings(**{**scoring, "answers": tuple(scoring["answers"])})
        return replace(base, params=params, source=str(path), settings=asked)
    return replace(base, params=params, source=str(path))


def _shape(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _model(
    checkpoint: Checkpoint, folder: Path | None, source: str, resize: Literal["pil", "big_vision"]
) -> ContrastiveModel:
    family, size = checkpoint.family, checkpoint.config.image_size
    if folder is None:
        processor = ImageProcessor.for_family(family, size)
        tokenizer: CaptionTokenizer | None = None
    else:
        processor = ImageProcessor.from_folder(folder, family).with_size(size)
        tokenizer = _tokenizer(folder, family, checkpoint.config.text_length, resize)
    return ContrastiveModel(
        family,
        checkpoint.config,
        checkpoint.params,
        replace(processor, mode=resize),
        tokenizer,
        folder,
        source,
    )


def _tokenizer(
    folder: Path, family: Literal["siglip", "clip"], length: int, style: str
) -> CaptionTokenizer | None:
    """The folder's tokenizer; a folder with weights only serves people who bring arrays."""
    names = ("tokenizer.json", "spiece.model", "vocab.json", "tokenizer.model")
    if not any((folder / name).is_file() for name in names):
        return None
    canonicalise: Literal["transformers", "big_vision"] = (
        "big_vision" if style == "big_vision" else "transformers"
    )
    return load_tokenizer(folder, family, length, canonicalise)
