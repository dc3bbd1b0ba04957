"""Make tests/golden/huggingface_*: results of transformers' PyTorch models, for machines without
PyTorch. Run from the root of the repository, with torch and transformers installed:

    python tests/support/make_golden.py

Each folder contains a model saved by transformers itself, and `expected.npz` with inputs
(`in/...`), outputs (`out/...`) and the gradient of the loss for every parameter (`gradient/...`).
"""

import numpy as np
import tiny_torch
from paths import TESTS

GOLDEN = TESTS / "golden"


def main() -> None:
    for name in ("siglip", "clip"):
        config = tiny_torch.CONFIGS[f"{name}_small"]
        model = tiny_torch.make(config, seed=7)
        pixels, ids = tiny_torch.inputs(config, images=4, texts=4, length=16, seed=8)
        out = tiny_torch.forward(model, pixels, ids)
        loss, gradients = tiny_torch.loss_and_gradients(model, pixels, ids)
        folder = GOLDEN / f"huggingface_{name}"
        model.save_pretrained(folder)
        np.savez(
            folder / "expected.npz",
            **{"in/pixels": pixels, "in/ids": ids, "out/loss": np.float32(loss)},
            **{f"out/{key}": out[key] for key in ("image", "text", "logits")},
            **{f"gradient/{key}": gradient for key, gradient in gradients.items()},
        )
        print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
