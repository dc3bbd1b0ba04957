"""Models and captions of the benchmarks: full-size or tiny models with random weights on disk.

Both sides load the same folder, each in its own way. PyTorch is imported inside functions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _sides import Parts, cores

Name = Literal["siglip-b16", "clip-b32"]
NAMES: tuple[Name, ...] = ("siglip-b16", "clip-b32")
CLIP_EOS, SIGLIP_PAD = 49407, 1
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
}


@dataclass(frozen=True)
class Sizes:
    """Sizes that the data depends on; `eos` is None if captions are padded and read to the end."""

    image_size: int
    length: int
    eos: int | None
    tokens: int  # of the image tower
    width: int
    mlp: int


def torch_config(name: Name, tiny: bool) -> Any:
    """transformers' defaults are these two models; `tiny` shrinks all but the vocabulary."""
    from transformers import CLIPConfig, SiglipConfig

    tower = TINY if tiny else {}
    vision = {**tower, "image_size": 32, "patch_size": 16} if tiny else {}
    if name == "siglip-b16":
        return SiglipConfig(vision_config=vision, text_config=tower)
    ids = {"bos_token_id": 49406, "eos_token_id": CLIP_EOS, "pad_token_id": CLIP_EOS}
    return CLIPConfig(
        vision_config=vision, text_config={**tower, **ids}, projection_dim=32 if tiny else 512
    )


def weight_writer(name: Name, tiny: bool, folder: str) -> Parts:
    """Write the weights in a separate process, so that the calling process stays small."""

    def write() -> Sizes:
        import torch
        from transformers import CLIPModel, SiglipModel

        torch.manual_seed(0)
        config = torch_config(name, tiny)
        model = (SiglipModel if name == "siglip-b16" else CLIPModel)(config)
        with torch.no_grad():
            model.logit_scale.fill_(4.6)  # about the value of the published models
        model.save_pretrained(Path(folder))
        vision, is_clip = config.vision_config, name == "clip-b32"
        return Sizes(
            image_size=vision.image_size,
            length=config.text_config.max_position_embeddings,
            eos=CLIP_EOS if is_clip else None,
            tokens=(vision.image_size // vision.patch_size) ** 2 + is_clip,
            width=vision.hidden_size,
            mlp=vision.intermediate_size,
        )

    return {"write": write}


def torch_model(folder: str) -> Any:
    """Load as a user of transformers would: float32, its default attention, all cores."""
    import torch
    from transformers import AutoModel

    torch.set_num_threads(cores())
    return AutoModel.from_pretrained(folder, dtype=torch.float32).eval()


def captions(sizes: Sizes, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random ids [count, length] of 8 to 15 tokens, padded to the full length of the model."""
    ids = rng.integers(3, 30000, (count, sizes.length))
    lengths = rng.integers(8, 16, (count, 1))
    padding = SIGLIP_PAD if sizes.eos is None else sizes.eos
    return np.where(np.arange(sizes.length) >= lengths - 1, padding, ids).astype(np.int32)
