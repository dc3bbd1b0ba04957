"""Model folders with random weights, in the layout of the hub."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from flax.traverse_util import unflatten_dict
from paths import TESTS
from tiny import random_params
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from ttm_jax.data import world
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.small.pretrain import make_module, write_folder_files
from ttm_jax.small.recipe import Recipe
from ttm_jax.weights import huggingface, model_folders, open_clip
from ttm_jax.weights.checkpoint_files import expected_shapes
from ttm_jax.weights.open_clip_config import TimmTower

PE_GOLDEN = TESTS / "golden" / "pe_core"
TINY_PE = "vit_pe_core_tiny_test"  # the name of a tower that timm does not have


def tiny_pe_towers() -> dict[str, TimmTower]:
    """Both kinds of PE-Core's image towers: images of 32, patches of 8, 2 blocks of 3 heads."""
    sizes = (32, 8, 24, 2, 3, 60)
    return {
        "with a class token": TimmTower(*sizes),
        "without": TimmTower(*sizes, class_token=False, grid_offset=0.0),
    }


def make_layout(path: Path, layout: str) -> Path:
    """The tiny CLIP of `make_folder`, as OpenCLIP ("open_clip") or MetaCLIP 2 ("metaclip_2").

    "pe_core" is one with another image tower, which has to be known under the name TINY_PE.
    """
    folder = make_folder(path, "clip")
    clip = huggingface.load(folder)
    files, eos = folder, None
    if layout == "pe_core":
        return _make_pe_core(path / layout, clip.config, folder)
    if layout == "metaclip_2":
        files, eos = path / "xlm", 2
        write_xlm_tokenizer(files, world.training_captions(0, 300), clip.config.vocab_size)
    config = replace(clip.config, layout=layout, eos_token_id=eos)
    if layout == "open_clip":
        vision, text = (replace(t, activation="gelu") for t in (config.vision, config.text))
        config = replace(config, vision=vision, text=text)
    model_folders.save(path / layout, config, clip.params, extra_files_from=files)
    return path / layout


def _make_pe_core(path: Path, clip: CLIPConfig, files: Path) -> Path:
    """A tiny PE-Core with the captions of `clip` and the image settings of the published ones."""
    extra = shutil.copytree(files, path.with_name("files_of_pe_core"))
    (extra / "config.json").unlink()
    shutil.copyfile(PE_GOLDEN / "open_clip_config.json", extra / "open_clip_config.json")
    text = replace(clip.text, activation="gelu")
    config = replace(
        open_clip.load(PE_GOLDEN).config,
        text=text,
        vocab_size=clip.vocab_size,
        text_length=clip.text_length,
    )
    shapes = unflatten_dict({k: np.zeros(x) for k, x in expected_shapes(config).items()}, sep="/")
    model_folders.save(path, config, random_params(shapes, 0), extra_files_from=extra)
    return path


def write_xlm_tokenizer(folder: Path, captions: list[str], size: int) -> None:
    """A small vocabulary in the manner of XLM-V's: <s>, <pad>, </s>, <unk> first, then pieces."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=min(size, 200), special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(captions, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    content = {**names, "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 20}
    (folder / "tokenizer_config.json").write_text(json.dumps(content))


def make_folder(path: Path, family: str) -> Path:
    """A checkpoint with random weights and the files of a hub checkpoint."""
    recipe = Recipe(family, width=32, depth=2, heads=2, image_size=16, text_length=20)
    words = world.training_captions(0, 300)
    tokenizer = write_folder_files(path / "files", recipe, words)
    module = make_module(recipe, tokenizer)
    sample = np.zeros((1, 16, 16, 3), np.float32), np.zeros((1, 20), np.int32)
    shapes = jax.eval_shape(module.init, jax.random.key(0), *sample)["params"]
    params = random_params(shapes, 0)
    huggingface.save(path / "model", module.config, params, extra_files_from=path / "files")
    return path / "model"
