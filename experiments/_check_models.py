"""A model that reads images and captions in another way: the choices of the check-up, applied."""

from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from experiments._check_choices import Settings
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.inputs.preprocess import ImageProcessor
from ttm_jax.inputs.tokenize import CaptionTokenizer, load_tokenizer
from ttm_jax.scorers.contrastive.model import ContrastiveModel
from ttm_jax.scorers.vqa.model import VQAModel


def with_settings(model: Any, settings: Settings, dataset: GroupedDataset) -> Any:
    """The same parameters, with inputs made as the settings say."""
    if isinstance(model, VQAModel):
        return _vqa(model, settings)
    return _contrastive(model, settings, dataset)


def _vqa(model: VQAModel, settings: Settings) -> VQAModel:
    asked = replace(
        model.settings,
        normalise=settings.normalise,
        splitting=model.settings.splitting if settings.splitting is None else settings.splitting,
        question=settings.question or model.settings.question,
    )
    return replace(model, settings=asked, tiles=replace(model.tiles, alpha=settings.alpha))


def _contrastive(
    model: ContrastiveModel, settings: Settings, dataset: GroupedDataset
) -> ContrastiveModel:
    processor, tokenizer = model.processor, model.tokenizer
    assert isinstance(processor, ImageProcessor)  # the paper's models all have one
    processor = replace(processor, alpha=settings.alpha, kind=settings.kind or processor.kind)
    if settings.resize == "big_vision":
        processor = replace(processor, mode="big_vision")
    elif settings.resize == "pil_bilinear":
        processor = replace(processor, resample=Image.Resampling.BILINEAR)
    if tokenizer is not None and settings.canonicalise != "transformers":
        assert model.folder is not None  # where the tokenizer came from
        tokenizer = load_tokenizer(
            model.folder, model.family, tokenizer.length, settings.canonicalise
        )
    if tokenizer is not None and settings.padding == "longest":
        tokenizer = replace(tokenizer, length=_longest(tokenizer, dataset))
    return replace(model, processor=processor, tokenizer=tokenizer)


def _longest(tokenizer: CaptionTokenizer, dataset: GroupedDataset) -> int:
    """The tokens of the longest caption, with its end."""
    ids = tokenizer([str(caption) for caption in dataset.captions]).ids
    ends = ids.shape[1] - np.argmax(ids[:, ::-1] != tokenizer.pad_id, axis=1)
    has_end = tokenizer.pad_id == tokenizer.eos_id  # SigLIP 1: the end looks like padding
    return int(min(ends.max() + has_end, tokenizer.length))
