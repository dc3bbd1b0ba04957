"""Settings for small models on the procedural world.

The first threshold follows the paper's rule (a fraction of the groups, without labels).
"""

from collections.abc import Sequence
from typing import Any

from ttm_jax.config import TTMConfig
from ttm_jax.inputs.model_advice import words_of

GROUPS = 200
"""Number of groups in each benchmark variant."""

SMALL = TTMConfig(lr=2e-4, iterations=5, epochs=10, batch_groups=50, schedule="linear")
"""For k x k groups; 1 x k groups use batches of 100, as in the paper."""


def small_config(shape: tuple[int, int], matching: str = "group") -> TTMConfig:
    from dataclasses import replace

    if matching == "global":
        return replace(SMALL, matching="global", tau_unit="fraction", tau_1=0.5)
    return replace(SMALL, batch_groups=100) if shape[0] == 1 else SMALL


ABOUT = (
    "It was trained on drawings of coloured shapes (the procedural world) and knows no "
    "photographs; for those, use a real model such as google/siglip-base-patch16-224."
)


def small_advice(captions: Sequence[str]) -> dict[str, Any]:
    """`advice.json` of a small model that was trained on these captions."""
    return {
        "about": ABOUT,
        "settings": {"lr": SMALL.lr, "iterations": SMALL.iterations, "epochs": SMALL.epochs},
        "words": sorted({word for text in captions for word in words_of(text)}),
    }
