"""A contrastive model from what was loaded: its parameters, image processor and tokenizer."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from ttm_jax.config import Family
from ttm_jax.errors import InputError
from ttm_jax.inputs.model_advice import read_advice
from ttm_jax.inputs.naflex import NaflexProcessor
from ttm_jax.inputs.preprocess import ImageProcessor
from ttm_jax.inputs.tokenize import Canonicalise, CaptionTokenizer, load_tokenizer
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.scorers.contrastive.model import ContrastiveModel
from ttm_jax.scorers.contrastive.pixels import Processor
from ttm_jax.weights.checkpoint_files import Checkpoint, Config


def from_checkpoint(
    checkpoint: Checkpoint,
    folder: Path | None,
    source: str,
    resize: Literal["pil", "big_vision"],
    vocabulary: Path | None,
    canonicalise: Canonicalise | None,
) -> ContrastiveModel:
    """The model with its settings.

    `folder` has those of images and captions, `vocabulary` the tokenizer's files.
    """
    family, config = checkpoint.family, checkpoint.config
    tokenizer: CaptionTokenizer | None = None
    if folder is not None and vocabulary is not None:
        default: Canonicalise = "big_vision" if resize == "big_vision" else "transformers"
        tokenizer = _tokenizer(folder, vocabulary, config, family, canonicalise or default)
    processor: Processor
    if isinstance(config, SigLIPConfig) and config.max_patches:
        processor = _naflex(config, folder, resize)
        config = replace(config, max_patches=processor.max_patches)
    elif folder is None:
        processor = replace(ImageProcessor.for_family(family, config.image_size), mode=resize)
    else:
        found = ImageProcessor.from_folder(folder, family).with_size(config.image_size)
        processor = replace(found, mode=resize)
    return ContrastiveModel(
        family,
        config,
        checkpoint.params,
        processor,
        tokenizer,
        folder,
        source,
        read_advice(folder),
    )


def _naflex(
    config: SigLIPConfig, folder: Path | None, resize: Literal["pil", "big_vision"]
) -> NaflexProcessor:
    """What prepares images for a NaFlex model."""
    if resize != "pil":
        raise InputError("NaFlex models have their own resizing: leave out resize")
    if folder is None:
        return NaflexProcessor(config.patch_size, config.max_patches)
    found = NaflexProcessor.from_folder(folder)
    if found.patch_size != config.patch_size:
        raise InputError(
            f"{folder}: patches have {found.patch_size} px in the image processor, "
            f"{config.patch_size} in the model: are they from the same checkpoint?"
        )
    return found


def _tokenizer(
    folder: Path, vocabulary: Path, config: Config, family: Family, style: Canonicalise
) -> CaptionTokenizer | None:
    """The model's tokenizer; None if there are only weights, for data that is tokenized already."""
    names = ("tokenizer.json", "spiece.model", "vocab.json", "tokenizer.model")
    if not any((vocabulary / name).is_file() for name in names):
        return None
    found = load_tokenizer(folder, family, config.text_length, style, vocabulary)
    if isinstance(config, CLIPConfig) and config.eos_token_id not in (None, found.eos_id):
        raise InputError(
            f"{vocabulary}: captions end with token {found.eos_id}, but this model looks for "
            f"{config.eos_token_id}: is it the tokenizer of another model?"
        )
    return found
