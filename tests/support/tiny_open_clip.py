"""Tiny random models of OpenCLIP, and their results as numpy arrays.

Imports PyTorch and open_clip, so it is used only where those are installed, and by
make_open_clip_golden.py. open_clip itself is not among our test requirements, because it requires
torchvision, whose wheels on PyPI bring CUDA: `pip install --no-deps open_clip_torch ftfy regex`,
and `timm` for PE-Core.
"""

import importlib
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import transformers  # before the stub: it looks for torchvision
from model_folders import TINY_PE
from safetensors.numpy import save_file

torch.set_num_threads(2)
_STUBBED = ("torchvision", "torchvision.ops", "torchvision.ops.misc")
_STUBBED += ("torchvision.transforms", "torchvision.transforms.functional")
_STUBBED += ("torchvision.datasets", "torchvision.datasets.folder")

# What the enumeration of interpolation modes has, by Pillow's numbers.
_FILTERS = {"NEAREST": 0, "LANCZOS": 1, "BILINEAR": 2, "BICUBIC": 3, "BOX": 4, "HAMMING": 5}


class _Stub(ModuleType):
    """A module whose every attribute is a class that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":
            return []
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (torch.nn.Module,), _FILTERS)


def _import_open_clip() -> Any:
    """open_clip needs torchvision for its image transforms only, which are not used here."""
    assert transformers
    stubs = {name: _Stub(name) for name in _STUBBED}
    if importlib.util.find_spec("torchvision") is not None:
        return importlib.import_module("open_clip")
    for name, stub in stubs.items():
        stub.__spec__ = ModuleSpec(name, None)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(stubs[parent], child, stub)
    sys.modules.update(stubs)
    try:
        return importlib.import_module("open_clip")
    finally:
        for name in stubs:
            del sys.modules[name]


open_clip = _import_open_clip()
VOCABULARY, LENGTH = 64, 16


def model_cfg(quick_gelu: bool = False, pool: dict | None = None, ratio: float = 4.0) -> dict:
    """Heads of 8 in the image tower; an MLP ratio that is not whole, as bigG's."""
    return {
        "embed_dim": 20,
        "quick_gelu": quick_gelu,
        "vision_cfg": {
            "image_size": 32,
            "patch_size": 8,
            "layers": 2,
            "width": 24,
            "head_width": 8,
            "mlp_ratio": ratio,
        },
        "text_cfg": {
            "context_length": LENGTH,
            "vocab_size": VOCABULARY,
            "width": 16,
            "heads": 2,
            "layers": 3,
            **(pool or {}),
        },
    }


def pe_core_cfg() -> dict:
    """PE-Core's text section has no `quick_gelu`; its sizes of images are timm's."""
    config = model_cfg(pool={"context_length": 12})
    del config["quick_gelu"]
    config["vision_cfg"] = {
        "image_size": 32,
        "timm_model_name": TINY_PE,
        "timm_model_pretrained": False,
        "timm_pool": "map",
        "timm_proj": None,
    }
    return {**config, "custom_text": True}


def register_tiny_pe(published: str, image_size: int = 32) -> None:
    """Let timm know TINY_PE: a published PE-Core, all of it, but with other sizes."""
    from timm.models import eva, register_model

    def vit_pe_core_tiny_test(pretrained: bool = False, **kwargs: Any) -> Any:
        sizes = {
            "img_size": image_size,
            "patch_size": 8,
            "embed_dim": 24,
            "depth": 2,
            "num_heads": 3,
        }
        sizes |= {"mlp_ratio": 2.5, "ref_feat_shape": (4, 4), "pretrained_cfg": None}
        return getattr(eva, published)(pretrained, **{**kwargs, **sizes})

    vit_pe_core_tiny_test.__module__ = eva.__name__
    register_model(vit_pe_core_tiny_test)


CASES = {
    "gelu": model_cfg(),
    "quick_gelu": model_cfg(True, ratio=2.3),
    "eos": model_cfg(True, {"pool_type": "eos", "eos_id": 2}),
}


def build(config: dict) -> Any:
    """A model as `open_clip.create_model` makes it from `model_cfg`."""
    fields = json.loads(json.dumps(config))
    kind = open_clip.model.CustomTextCLIP if fields.pop("custom_text", False) else open_clip.CLIP
    return kind(**fields).eval()


def make(config: dict, seed: int) -> Any:
    """A model without parameters that are zero, one, or too small to reveal a mistake."""
    model = build(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.2 * torch.randn(parameter.shape, generator=generator)
            is_norm_weight = ("ln_" in name or "norm" in name) and name.endswith("weight")
            parameter.copy_(noise + 1 if is_norm_weight else noise)
        model.logit_scale.fill_(2.5)
    return model


def save(model: Any, config: dict, folder: Path, preprocess: dict | None = None) -> None:
    """As `open_clip.push_to_hf_hub` writes it, without the pickle."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state(model), folder / "open_clip_model.safetensors", metadata={"format": "pt"})
    fields = {"model_cfg": config, "preprocess_cfg": preprocess or {}}
    (folder / "open_clip_config.json").write_text(json.dumps(fields, indent=2))


def inputs(config: dict, images: int, texts: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [N, H, W, 3] and ids [M, L] of captions of different lengths, padded with 0."""
    rng = np.random.default_rng(seed)
    size, text = config["vision_cfg"]["image_size"], config["text_cfg"]
    pixels = rng.uniform(-1, 1, (images, size, size, 3)).astype(np.float32)
    length, last = text["context_length"], text["vocab_size"] - 1
    ids = rng.integers(3, last, (texts, length)).astype(np.int32)
    end = rng.integers(1, length, texts)
    ids[np.arange(length)[None] > end[:, None]] = 0
    ids[np.arange(texts), end] = text.get("eos_id", last)
    return pixels, ids


def forward(model: Any, pixels: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
    with torch.no_grad():
        image, text, scale = model(*_tensors(pixels, ids))
        logits = scale * image @ text.T
    return {"image": image.numpy(), "text": text.numpy(), "logits": logits.numpy()}


def loss_and_gradients(
    model: Any, pixels: np.ndarray, ids: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """open_clip's own contrastive loss; gradients by parameter name."""
    model.zero_grad()
    loss = open_clip.ClipLoss()(*model(*_tensors(pixels, ids)))
    loss.backward()
    return loss.item(), {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def state(model: Any) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def _tensors(pixels: np.ndarray, ids: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(ids).long()
