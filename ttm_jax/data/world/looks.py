"""Backdrop, light and grain: what changes between the training split and the test split."""

import numpy as np

from ttm_jax.data.world.scene import Look

# Training backdrops are pale. The test split mixes in deeper ones, more with a stronger shift.
PALE = (
    (247, 242, 230),
    (228, 238, 247),
    (231, 243, 232),
    (246, 231, 232),
    (236, 232, 245),
    (240, 240, 238),
    (249, 239, 217),
    (221, 239, 238),
)
DEEP = (
    (72, 98, 140),
    (124, 120, 74),
    (110, 82, 126),
    (70, 118, 114),
    (146, 104, 84),
    (84, 92, 104),
)
PATTERNS = ("waves", "grid", "spots")
EVENING = (0.01, -0.02, -0.08)  # added to the red, green and blue factors at shift 1


def draw_look(rng: np.random.Generator, shift: float) -> Look:
    """Draw one look. Shift 0 is the training split; every component grows with the shift."""
    pale, other = (np.asarray(PALE[i], float) for i in rng.integers(0, len(PALE), 2))
    deep = np.asarray(DEEP[rng.integers(0, len(DEEP))], float)
    base = pale + (deep - pale) * min(1.0, rng.uniform(0.35, 0.65) * shift)
    gain = rng.uniform(0.95, 1.03) * (1.0 - 0.1 * shift)
    patterned = rng.random() < min(1.0, 0.15 + 0.4 * shift)
    pattern = PATTERNS[rng.integers(0, len(PATTERNS))]
    return Look(
        base=_rgb(base),
        far=_rgb(base * rng.uniform(0.86, 1.0) + (other - pale) * 0.5),
        angle=float(rng.uniform(0, 2 * np.pi)),
        pattern=pattern if patterned else "plain",
        contrast=float(rng.uniform(0.01, 0.03) + 0.03 * shift),
        phase=float(rng.uniform(0, 2 * np.pi)),
        light=_rgb(np.array([gain * (1.0 + shift * e) for e in EVENING])),
        shade=float(min(0.9, rng.uniform(0.0, 0.08) + 0.16 * shift)),
        shade_angle=float(rng.uniform(0, 2 * np.pi)),
        grain=float(rng.uniform(0.0, 2.0) + 3.5 * shift),
    )


def draw_angle(rng: np.random.Generator, shift: float) -> float:
    """Rotation in degrees; never enough to make a square look like a diamond."""
    most = min(20.0, 6.0 + 8.0 * shift)
    return float(rng.uniform(-most, most))


def draw_scale(rng: np.random.Generator, shift: float) -> float:
    """A factor on all radii of a scene: objects in the shifted split appear further away."""
    return float(rng.uniform(0.94, 1.0) - min(0.25, 0.08 * shift))


def _rgb(values: np.ndarray) -> tuple[float, float, float]:
    red, green, blue = (float(v) for v in values)
    return red, green, blue
