"""Model folders as they are on the Hugging Face hub, with random weights.

Config and processor files have the published values. CLIP gets its real byte pairs, SmolVLM its
real tokenizer; SigLIP's sentencepiece model is trained here on a few thousand captions, so its ids
reach only part of the real embedding table.
"""

import gzip
import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.rehearsal import weights
from benchmarks.rehearsal.support import ASSETS, captions, smolvlm_files
from ttm_jax.data.paper.models import MODELS
from ttm_jax.small.tokenizers import write_clip_bpe, write_siglip_tokenizer

WEIGHTS = "model.safetensors"
PICKLE = "pytorch_model.bin"
_MEAN = [0.48145466, 0.4578275, 0.40821073]
_STD = [0.26862954, 0.26130258, 0.27577711]
_BYTE_PAIRS = 49152 - 256 - 2  # how many of the file are in the vocabulary of 49,408


@dataclass(frozen=True)
class Sizes:
    """Of SigLIP and CLIP; `tiny` is for a quick check of the rehearsal itself."""

    tower: weights.Tower
    words: weights.Tower
    image_size: int
    patch: int

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch) ** 2


_BASE = weights.Tower(768, 3072, 12)
_LARGE = weights.Tower(1024, 4096, 24)
_TINY = weights.Tower(32, 64, 2)
SIZES = {
    "siglip_b16": Sizes(_BASE, _BASE, 224, 16),
    "siglip_l16": Sizes(_LARGE, _LARGE, 256, 16),
    "clip_b32": Sizes(_BASE, weights.Tower(512, 2048, 12), 224, 32),
    "clip_b16": Sizes(_BASE, weights.Tower(512, 2048, 12), 224, 16),
}


def make_model(name: str, folder: Path, tiny: bool = False) -> None:
    """Write the folder of one of the paper's models."""
    folder.mkdir(parents=True)
    if name == "smolvlm_256m":
        _make_smolvlm(folder, tiny)
        return
    sizes = Sizes(_TINY, _TINY, 32, 16) if tiny else SIZES[name]
    (_make_siglip if name.startswith("siglip") else _make_clip)(folder, sizes)


def make_hub(name: str, folder: Path, tiny: bool = False) -> dict[str, Path]:
    """The branches of a model's repository: revision -> folder.

    OpenAI's CLIP has a pickle on its main branch and safetensors in a pull request of the hub's
    bot; the others have safetensors on the main branch.
    """
    make_model(name, folder / "converted", tiny)
    if not name.startswith("clip"):
        return {"main": folder / "converted"}
    main = folder / "main"
    main.mkdir()
    for path in (folder / "converted").iterdir():
        if path.name != WEIGHTS:
            (main / path.name).write_bytes(path.read_bytes())
    (main / PICKLE).write_bytes(b"never loaded")
    return {"main": main, "refs/pr/66": folder / "converted"}


def repository(name: str) -> str:
    return MODELS[name]


def _make_siglip(folder: Path, sizes: Sizes) -> None:
    t = sizes.tower
    tower: dict[str, Any] = {}
    if t != _BASE:  # the published config of the base model leaves its sizes out
        tower = {"hidden_size": t.width, "intermediate_size": t.mlp, "num_hidden_layers": t.depth,
                 "num_attention_heads": t.width // 64 or 2}  # fmt: skip
    vision = {**tower, "image_size": sizes.image_size} if tower else {}
    config = {
        "architectures": ["SiglipModel"],
        "initializer_factor": 1.0,
        "model_type": "siglip",
        "text_config": {**tower, "model_type": "siglip_text_model"},
        "torch_dtype": "float32",
        "vision_config": {**vision, "model_type": "siglip_vision_model"},
    }
    processor = {
        **_resizing("Siglip", [0.5] * 3, [0.5] * 3),
        "size": {"height": sizes.image_size, "width": sizes.image_size},
    }
    _write(folder / "config.json", config)
    _write(folder / "preprocessor_config.json", processor)
    write_siglip_tokenizer(folder, captions(), 64, vocabulary=2000)
    shapes = weights.siglip_shapes(t, sizes.patch, sizes.patches, 32000, 64)
    weights.write_random(folder / WEIGHTS, shapes, "F32")


def _make_clip(folder: Path, sizes: Sizes) -> None:
    embedding = 512 if sizes.tower == _BASE else 32
    towers: dict[str, Any] = {
        part: {"hidden_size": t.width, "intermediate_size": t.mlp, "num_hidden_layers": t.depth,
               "num_attention_heads": t.width // 64 or 2}
        for part, t in (("text", sizes.words), ("vision", sizes.tower))
    }  # fmt: skip
    ids = {
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 1,
    }  # 2: "the largest id ends a caption"
    config = {
        "architectures": ["CLIPModel"],
        "initializer_factor": 1.0,
        "logit_scale_init_value": 2.6592,
        "model_type": "clip",
        "projection_dim": embedding,
        "text_config": {**towers["text"], **ids, "vocab_size": 49408, "hidden_act": "quick_gelu",
                        "max_position_embeddings": 77, "model_type": "clip_text_model"},
        "text_config_dict": None,
        "torch_dtype": "float32",
        "vision_config": {**towers["vision"], "image_size": sizes.image_size,
                          "patch_size": sizes.patch, "hidden_act": "quick_gelu",
                          "model_type": "clip_vision_model"},
        "vision_config_dict": None,
    }  # fmt: skip
    processor = {
        **_resizing("CLIP", _MEAN, _STD),
        "crop_size": sizes.image_size,
        "do_center_crop": True,
        "size": sizes.image_size,
    }
    _write(folder / "config.json", config)
    _write(folder / "preprocessor_config.json", processor)
    with gzip.open(
        ASSETS / "clip_bpe" / "bpe_simple_vocab_16e6.txt.gz", "rt", encoding="utf-8"
    ) as file:
        lines = islice(file, 1, 1 + _BYTE_PAIRS)
        first_and_second = [line.split() for line in lines]
    write_clip_bpe(folder, [(a, b) for a, b in first_and_second], 77)
    shapes = weights.clip_shapes(
        sizes.tower, sizes.words, embedding, sizes.patch, sizes.patches, 49408
    )
    weights.write_random(folder / WEIGHTS, shapes, "F32")


def _make_smolvlm(folder: Path, tiny: bool) -> None:
    smolvlm_files.unpack(folder)
    config = json.loads((folder / "config.json").read_text())
    if tiny:
        small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
        config["vision_config"] |= {**small, "num_attention_heads": 2}
        config["text_config"] |= {**small, "num_attention_heads": 2, "num_key_value_heads": 1,
                                  "head_dim": 16}  # fmt: skip
        _write(folder / "config.json", config)
    weights.write_random(folder / WEIGHTS, weights.smolvlm_shapes(config), "BF16")


def _resizing(family: str, mean: list[float], std: list[float]) -> dict[str, Any]:
    return {
        "do_normalize": True,
        "do_resize": True,
        "image_mean": mean,
        "image_processor_type": f"{family}ImageProcessor",
        "image_std": std,
        "processor_class": f"{family}Processor",
        "resample": 3,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2))
