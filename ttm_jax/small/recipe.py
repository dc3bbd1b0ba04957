"""Hyperparameters of a small model: sizes, data, and the length of each training stage."""

from dataclasses import dataclass, field

from ttm_jax.config import Family
from ttm_jax.data.world import TrainingText


@dataclass(frozen=True)
class Stage:
    """One training stage: AdamW with warm-up and cosine decay."""

    steps: int
    lr: float


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the weights. Those that ship are older: see their recipe.json."""

    family: Family
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
    """Number of words and bigrams that the image tower learns to predict."""
    album_share: float = 0.5
    """Fraction of a contrastive batch made of albums: images with the same shapes and colours."""
    album_size: int = 4
    words: Stage = Stage(4000, 2e-3)
    """Trains only the image tower."""
    reading: Stage = Stage(5000, 1e-3)
    """Trains the text tower, with the image tower frozen."""
    together: Stage = Stage(1000, 2e-4)
    """Trains both towers."""
    positions: Stage = Stage(1500, 1e-3)
    """Trains both towers and a head that predicts which thing is on which side."""
    rounds: int = 2
    """How often the last stage is run, each time with a new head, warm-up and decay."""
    place_weight: float = 0.3
    """Weight of that head's loss, relative to the contrastive loss."""
    rearranged: int = 6000
    """Number of scenes of which the last stage also shows the objects in other places."""
    rearranged_share: float = 0.4
    """Fraction of a batch of the last stage that is made of them."""
    position_albums: float = 1.0
    """`album_share` in the rest of a batch of the last stage."""
    vary: float = 0.2
    """How much light, colour cast, haze and noise vary in the images of the last two stages."""
    text: TrainingText = field(
        default_factory=lambda: TrainingText(relation=0.4, omit=0.1, color=0.95)
    )
    rearranged_text: TrainingText = field(
        default_factory=lambda: TrainingText(relation=0.95, omit=0.1, color=0.95)
    )


RECIPES: dict[Family, Recipe] = {
    "siglip": Recipe("siglip"),
    "clip": Recipe("clip", vary=0.1),
}
