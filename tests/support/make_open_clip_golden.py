"""Make tests/golden/open_clip: results of OpenCLIP, for machines without it. Run from the root of
the repository, with torch, transformers and open_clip installed:

    python tests/support/make_open_clip_golden.py

For PE-Core, timm too. Each folder contains a model as OpenCLIP saves it, and `expected.npz` with
inputs (`in/...`), outputs (`out/...`) and the gradient of the loss for every parameter
(`gradient/...`).
"""

from pathlib import Path

import numpy as np
import tiny_open_clip
from paths import TESTS

GOLDEN = TESTS / "golden"
CONFIG = {
    "embed_dim": 8,
    "vision_cfg": {
        "image_size": 16,
        "layers": 2,
        "width": 16,
        "head_width": 8,
        "mlp_ratio": 1.5,
        "patch_size": 8,
    },
    "text_cfg": {
        "context_length": 8,
        "vocab_size": 32,
        "width": 8,
        "heads": 2,
        "layers": 1,
        "mlp_ratio": 1.5,
    },
}
PREPROCESS = {
    "mean": [0.48145466, 0.4578275, 0.40821073],
    "std": [0.26862954, 0.26130258, 0.27577711],
    "interpolation": "bicubic",
    "resize_mode": "shortest",
}


PE_PREPROCESS = {
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "interpolation": "bilinear",
    "resize_mode": "squash",
}


def main() -> None:
    write(GOLDEN / "open_clip", CONFIG, PREPROCESS)
    tiny_open_clip.register_tiny_pe("vit_pe_core_tiny_patch16_384")
    write(GOLDEN / "pe_core", tiny_open_clip.pe_core_cfg(), PE_PREPROCESS)


def write(folder: Path, config: dict, preprocess: dict) -> None:
    model = tiny_open_clip.make(config, seed=7)
    pixels, ids = tiny_open_clip.inputs(config, images=3, texts=3, seed=8)
    out = tiny_open_clip.forward(model, pixels, ids)
    loss, gradients = tiny_open_clip.loss_and_gradients(model, pixels, ids)
    tiny_open_clip.save(model, config, folder, preprocess)
    np.savez_compressed(
        folder / "expected.npz",
        **{"in/pixels": pixels, "in/ids": ids, "out/loss": np.float32(loss)},
        **{f"out/{key}": value for key, value in out.items()},
        **{f"gradient/{key}": gradient for key, gradient in gradients.items()},
    )
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
