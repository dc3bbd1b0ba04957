"""Tiny random models of OpenCLIP, and their results as numpy arrays.

Imports PyTorch and open_clip, so it is used only where those are installed, and by
make_open_clip_golden.py. open_clip itself is not among our test requirements, because it requires
torchvision, whose wheels on PyPI bring CUDA: `pip install --no-deps open_clip_torch ftfy regex`.
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
from safetensors.numpy import save_file

torch.set_num_threads(2)
_STUBBED = ("torchvision", "torchvision.ops", "torchvision.ops.misc")
_STUBBED += ("torchvision.transforms", "torchvision.transforms.functional")


class _Stub(ModuleType):
    """A module whose every attribute is a class that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":
            return []
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (torch.nn.Module,), {"BICUBIC": 3, "BILINEAR": 2})


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
    sys.modules["timm"] = None  # type: ignore[assignment]  # optional, and wants torchvision too
    try:
        return importlib.import_module("open_clip")
    finally:
        for name in (*stubs, "timm"):
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


CASES = {
    "gelu": model_cfg(),
    "quick_gelu": model_cfg(True, ratio=2.3),
    "eos": model_cfg(True, {"pool_type": "eos", "eos_id": 2}),
}


def make(config: dict, seed: int) -> Any:
    """A model without parameters that are zero, one, or too small to reveal a mistake."""
    model = open_clip.CLIP(**json.loads(json.dumps(config))).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.2 * torch.randn(parameter.shape, generator=generator)
            is_norm_weight = "ln_" in name and name.endswith("weight")
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
