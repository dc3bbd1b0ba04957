"""What decides the weights of a small model: sizes, data, and how long each stage learns."""

from dataclasses import dataclass, field
from typing import Literal

from ttm_jax.data.world import TrainingText


@dataclass(frozen=True)
class Stage:
    """AdamW with warm-up and a cosine, for so many steps."""

    steps: int
    lr: float


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights."""

    family: Literal["siglip", "clip"]
    seed: int = 0
    width: int = 96
    depth: int = 2
    heads: int = 3
    image_size: int = 48
    patch_size: int = 12
    text_length: int = 20
    scenes: int = 30_000
    rewordings: int = 3
    batch: int = 128
    warmup: int = 200
    weight_decay: float = 0.05
    ngrams: int = 1200
    """Words and pairs of words that the image tower learns to tell."""
    album_share: float = 0.5
    """Of a contrastive batch: pictures that come with others of the same shapes and colours."""
    album_size: int = 4
    words: Stage = Stage(4000, 2e-3)
    """The image tower alone."""
    reading: Stage = Stage(5000, 1e-3)
    """The text tower, with the image tower locked."""
    together: Stage = Stage(1000, 2e-4)
    """Both."""
    text: TrainingText = field(
        default_factory=lambda: TrainingText(relation=0.4, omit=0.1, color=0.95)
    )


RECIPES = {family: Recipe(family) for family in ("siglip", "clip")}
