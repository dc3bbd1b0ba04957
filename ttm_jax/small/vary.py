"""Variation of training images: light, colour cast, haze and noise, drawn anew in every batch.

None of it changes what a caption says. The images of the world's training split all have a similar
appearance, and a model that has seen nothing else loses most of what it knows on another one.
"""

import numpy as np
from jaxtyping import UInt8

NOISE = 24.0  # grey levels at strength 1


def vary(
    rng: np.random.Generator, images: UInt8[np.ndarray, "n h w 3"], strength: float
) -> UInt8[np.ndarray, "n h w 3"]:
    """Change each image by a random amount; strength 0 changes nothing, 1 is very strong."""
    if strength == 0.0:
        return images
    count, height, width, _ = images.shape

    def draw(low: float, high: float, channels: int = 1) -> np.ndarray:
        return rng.uniform(low, high, (count, 1, 1, channels)).astype(np.float32)

    cast = (1 + draw(-0.5, 0.3) * strength) * (1 + draw(-0.2, 0.2, 3) * strength)
    x = np.linspace(-0.5, 0.5, width, dtype=np.float32)[None, None, :, None]
    y = np.linspace(-0.5, 0.5, height, dtype=np.float32)[None, :, None, None]
    shade = 1 + strength * (draw(-0.5, 0.5) * x + draw(-0.5, 0.5) * y)
    haze = draw(0.0, 0.6) * strength
    noise = rng.standard_normal((count, height, width, 1), np.float32)
    varied = images * ((1 - haze) * cast * shade)
    varied += haze * draw(0.0, 255.0, 3) + noise * (draw(0.0, NOISE) * strength)
    return np.clip(varied + 0.5, 0, 255).astype(np.uint8)
