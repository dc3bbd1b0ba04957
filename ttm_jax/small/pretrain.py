"""Pretrain a small model on the procedural world and save it as a Hugging Face folder.

Only the training split is used: no images or captions of the benchmarks.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ttm_jax.data.world import training_captions, training_pairs
from ttm_jax.data.world.training import training_scene
from ttm_jax.errors import InputError
from ttm_jax.files import read_json, write_json
from ttm_jax.inputs.model_advice import ADVICE
from ttm_jax.inputs.preprocess import ImageProcessor
from ttm_jax.inputs.tokenize import CaptionTokenizer, load_tokenizer
from ttm_jax.models.clip import CLIP, CLIPConfig
from ttm_jax.models.siglip import SigLIP, SigLIPConfig
from ttm_jax.models.transformer import Compute, TowerConfig
from ttm_jax.small.batches import find_albums
from ttm_jax.small.positions import learn_positions
from ttm_jax.small.recipe import Recipe
from ttm_jax.small.settings import small_advice
from ttm_jax.small.stages import learn_to_read, learn_together, learn_words
from ttm_jax.small.tokenizers import write_clip_tokenizer, write_siglip_tokenizer
from ttm_jax.weights import huggingface


def write_folder_files(folder: Path, recipe: Recipe, captions: list[str]) -> CaptionTokenizer:
    """Write tokenizer and image settings in the format of a hub checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    size = {"height": recipe.image_size, "width": recipe.image_size}
    common: dict[str, Any] = {"do_resize": True, "resample": 3, "do_rescale": True}
    common |= {"rescale_factor": 1 / 255, "do_normalize": True, "do_convert_rgb": True}
    if recipe.family == "siglip":
        write_siglip_tokenizer(folder, captions, recipe.text_length, vocabulary=256)
        common |= {
            "image_processor_type": "SiglipImageProcessor",
            "processor_class": "SiglipProcessor",
            "size": size,
        }
    else:
        write_clip_tokenizer(folder, captions, recipe.text_length, merges=512)
        common |= {
            "image_processor_type": "CLIPImageProcessor",
            "processor_class": "CLIPProcessor",
            "size": {"shortest_edge": recipe.image_size},
            "do_center_crop": True,
            "crop_size": size,
        }
    processor = ImageProcessor.for_family(recipe.family, recipe.image_size)
    common |= {"image_mean": list(processor.mean), "image_std": list(processor.std)}
    write_json(folder / "preprocessor_config.json", common)
    return load_tokenizer(folder, recipe.family, recipe.text_length)


def make_module(recipe: Recipe, tokenizer: CaptionTokenizer) -> SigLIP | CLIP:
    compute = Compute(remat="dots")  # less memory and, on the CPU, faster than keeping everything
    tower = TowerConfig(recipe.width, recipe.depth, recipe.heads, 4 * recipe.width, compute=compute)
    sizes = (recipe.image_size, recipe.patch_size)
    words = (tokenizer.vocab_size, recipe.text_length, recipe.width)
    if recipe.family == "siglip":
        return SigLIP(SigLIPConfig(*sizes, tower, tower, *words))
    tower = replace(tower, activation="quick_gelu", norm_eps=1e-5)
    text = replace(tower, causal=True)
    return CLIP(CLIPConfig(*sizes, tower, text, *words, tokenizer.eos_id))


def pretrain(
    recipe: Recipe,
    folder: Path,
    on_step: Callable[[str, int, Any], None] = lambda stage, step, loss: None,
    start: Path | None = None,
) -> dict[str, Any]:
    """Train according to the recipe, save a Hugging Face folder and return a training record.

    With `start`, a folder of the same recipe with one round less, only the last round of the last
    stage is run, from the weights there.
    """
    if folder.exists():
        raise InputError(f"{folder} exists already; give the name of a new folder")
    with TemporaryDirectory() as files:
        return _pretrain(recipe, folder, Path(files), on_step, start)


def curve(losses: Sequence[Any], points: int = 20) -> list[float]:
    """The mean loss of each of `points` equal portions of a stage, to three decimals."""
    portions = np.array_split(np.asarray(losses, float), min(points, len(losses)))
    return [round(float(portion.mean()), 3) for portion in portions]


def _origin(start: Path) -> dict[str, Any]:
    """What the weights in this folder were made with, as far as it says."""
    path = start / "recipe.json"
    return read_json(path) if path.is_file() else {"folder": str(start)}


def _pretrain(
    recipe: Recipe,
    folder: Path,
    files: Path,
    on_step: Callable[[str, int, Any], None],
    start: Path | None,
) -> dict[str, Any]:
    began = time.perf_counter()
    images, _ = training_pairs(recipe.seed, recipe.scenes, recipe.text, recipe.image_size)
    captions = [
        training_captions(recipe.seed, recipe.scenes, recipe.text, draw=draw)
        for draw in range(recipe.rewordings)
    ]
    if start is None:
        tokenizer = write_folder_files(files, recipe, [c for draw in captions for c in draw])
    else:  # another version of sentencepiece would learn another vocabulary from the same captions
        files, tokenizer = start, load_tokenizer(start, recipe.family, recipe.text_length)
    tokens = np.stack([tokenizer(draw).ids for draw in captions])
    scenes = [training_scene(recipe.seed, number) for number in range(recipe.scenes)]
    batches = find_albums(scenes, recipe.album_size)
    module = make_module(recipe, tokenizer)
    losses: dict[str, list[Any]] = defaultdict(list)

    def say(stage: str) -> Callable[[int, Any], None]:
        def note(step: int, loss: Any) -> None:
            losses[stage].append(loss)  # not converted: that would wait for the step to end
            on_step(stage, step, loss)

        return note

    if start is None:
        sample = jnp.zeros((1, recipe.image_size, recipe.image_size, 3)), jnp.asarray(tokens[0, :1])
        params = module.init(jax.random.key(recipe.seed), *sample)["params"]
        params = learn_words(recipe, module, params, images, captions, say("words"))
        params = learn_to_read(recipe, module, params, images, tokens, batches, say("reading"))
        params = learn_together(recipe, module, params, images, tokens, batches, say("together"))
    else:
        params = huggingface.load(start).params
    params = learn_positions(
        recipe, module, params, images, captions, tokens, tokenizer, batches, say("positions"),
        first=0 if start is None else recipe.rounds - 1,
    )  # fmt: skip
    params = jax.tree.map(np.asarray, params)
    huggingface.save(folder, module.config, params, extra_files_from=files)
    record = {
        "recipe": asdict(recipe),
        "parameters": sum(x.size for x in jax.tree.leaves(params)),
        "minutes": round((time.perf_counter() - began) / 60, 1),
        "start": None if start is None else _origin(start),
        "curves": {stage: curve(values) for stage, values in losses.items()},
    }
    write_json(folder / "recipe.json", record)
    write_json(folder / ADVICE, small_advice([text for draw in captions for text in draw]))
    return record
