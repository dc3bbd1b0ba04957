"""Make tests/golden/open_clip: results of OpenCLIP, for machines without it. Run from the root of
the repository, with torch, transformers and open_clip installed:

    python tests/support/make_open_clip_golden.py

The folder contains a model as OpenCLIP saves it, and `expected.npz` with inputs (`in/...`), outputs
(`out/...`) and the gradient of the loss for every parameter (`gradient/...`).
"""

import numpy as np
import tiny_open_clip
from paths import TESTS

FOLDER = TESTS / "golden" / "open_clip"
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


def main() -> None:
    model = tiny_open_clip.make(CONFIG, seed=7)
    pixels, ids = tiny_open_clip.inputs(CONFIG, images=3, texts=3, seed=8)
    out = tiny_open_clip.forward(model, pixels, ids)
    loss, gradients = tiny_open_clip.loss_and_gradients(model, pixels, ids)
    tiny_open_clip.save(model, CONFIG, FOLDER, PREPROCESS)
    np.savez_compressed(
        FOLDER / "expected.npz",
        **{"in/pixels": pixels, "in/ids": ids, "out/loss": np.float32(loss)},
        **{f"out/{key}": value for key, value in out.items()},
        **{f"gradient/{key}": gradient for key, gradient in gradients.items()},
    )
    print(f"{FOLDER}: {sum(path.stat().st_size for path in FOLDER.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
