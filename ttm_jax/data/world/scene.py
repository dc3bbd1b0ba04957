"""The content of an image: objects with a shape, a colour, a size, a texture and a position.

A scene is plain data in unit coordinates (x to the right, y down, both from 0 to 1), so that it can
be rendered at any size and a caption can be checked against it without pixels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

# Frequencies in training. Test splits favour the rare ones (`shifted_weights`).
SHAPES: Mapping[str, float] = MappingProxyType(
    {
        "circle": 1.0,
        "square": 1.0,
        "triangle": 1.0,
        "star": 1.0,
        "heart": 1.0,
        "diamond": 1.0,
        "ring": 0.5,
        "cross": 0.5,
        "moon": 0.5,
        "flower": 0.25,
        "drop": 0.25,
        "bolt": 0.25,
    }
)
COLORS: Mapping[str, float] = MappingProxyType(
    {
        "red": 1.0,
        "blue": 1.0,
        "green": 1.0,
        "yellow": 1.0,
        "orange": 1.0,
        "purple": 1.0,
        "black": 0.5,
        "white": 0.5,
        "pink": 0.25,
        "brown": 0.25,
        "turquoise": 0.25,
    }
)
# Too thin to show a texture, or to be recognised when partly covered.
THIN = frozenset({"ring", "cross", "moon", "drop", "bolt"})
SOLID: Mapping[str, float] = MappingProxyType({s: w for s, w in SHAPES.items() if s not in THIN})
TEXTURES = ("plain", "striped", "dotted", "checked")
RADIUS: Mapping[str, float] = MappingProxyType({"small": 0.12, "medium": 0.18, "large": 0.225})
CROWDED = 0.78  # factor on the radii in images with three objects
DIRECTIONS = ("left", "right", "above", "below")
OPPOSITE: Mapping[str, str] = MappingProxyType(
    {
        "left": "right",
        "right": "left",
        "above": "below",
        "below": "above",
        "front": "behind",
        "behind": "front",
    }
)
MARGIN = 0.04  # minimum distance from objects to the image border


@dataclass(frozen=True)
class Thing:
    shape: str
    color: str
    texture: str = "plain"
    size: str = "medium"
    x: float = 0.5
    y: float = 0.5
    radius: float = RADIUS["medium"]
    angle: float = 0.0  # degrees


@dataclass(frozen=True)
class Look:
    """Everything about an image that captions do not describe: backdrop, light, grain."""

    base: tuple[float, float, float]  # backdrop colour at one end of its gradient, 0 to 255
    far: tuple[float, float, float]  # and at the other end
    angle: float  # direction of the gradient, radians
    pattern: str  # plain, waves, grid or spots
    contrast: float  # of the pattern, as a fraction of the backdrop's brightness
    phase: float
    light: tuple[float, float, float]  # factor on red, green, blue
    shade: float  # how much darker the far side is, 0 to 1
    shade_angle: float
    grain: float  # standard deviation of the noise, in grey levels


@dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...]  # later things are drawn over earlier ones
    look: Look
    grain_seed: int


def related(a: Thing, b: Thing, relation: str, a_is_later: bool) -> bool:
    """Whether `a` is clearly left of (right of, above, ...) `b`; False if it is ambiguous."""
    dx, dy = b.x - a.x, b.y - a.y
    distance, reach = float(np.hypot(dx, dy)), a.radius + b.radius
    if relation in ("front", "behind"):
        return distance < 0.8 * reach and a_is_later == (relation == "front")
    along, across = (dx, dy) if relation in ("left", "right") else (dy, dx)
    if relation in ("right", "below"):
        along = -along
    return distance >= 0.95 * reach and along >= 2.0 * abs(across)


def shifted_weights(weights: Mapping[str, float], shift: float) -> np.ndarray:
    """Unnormalised frequencies in a split: as in training at shift 0, uniform at 1, inverted at
    2."""
    return np.fromiter(weights.values(), float) ** (1.0 - shift)


def draw_texture(rng: np.random.Generator, share: float) -> str:
    """A texture with probability `share`, otherwise plain."""
    pick, which = rng.random(2)
    return TEXTURES[1 + int(which * (len(TEXTURES) - 1))] if pick < share else "plain"


def draw_kinds(
    rng: np.random.Generator, weights: Mapping[str, float], count: int, shift: float
) -> list[str]:
    """Draw `count` different shapes or colours.

    Takes the `count` smallest of independent exponential variables: the same distribution as
    sequential sampling without replacement, and several times faster than `rng.choice`.
    """
    names = list(weights)
    clocks = rng.standard_exponential(len(names)) / shifted_weights(weights, shift)
    return [names[i] for i in np.argsort(clocks)[:count]]


def place(
    rng: np.random.Generator, radii: Sequence[float], layout: str
) -> list[tuple[float, float]]:
    """Draw centres for objects of these radii.

    `row` and `column` keep the given order from left to right or from top to bottom; `overlap` puts
    the second partly over the first; `scatter` places them anywhere without touching.
    """
    if layout in ("row", "column"):
        return _in_line(rng, radii, upright=layout == "column")
    if layout == "overlap":
        return _overlapping(rng, radii)
    if layout == "scatter":
        return _scattered(rng, radii)
    raise ValueError(f"layout {layout!r} is not one of row, column, overlap, scatter")


def _in_line(
    rng: np.random.Generator, radii: Sequence[float], upright: bool
) -> list[tuple[float, float]]:
    spare = 1.0 - 2 * MARGIN - 2 * sum(radii)
    least = 0.03
    # Fractions of the free space: before the first object, between objects, after the last.
    shares = rng.dirichlet(np.full(len(radii) + 1, 12.0)) * max(
        0.0, spare - least * (len(radii) - 1)
    )
    middle = rng.uniform(0.45, 0.55)
    centres, edge = [], MARGIN
    for i, radius in enumerate(radii):
        edge += shares[i] + (least if i else 0.0)
        along, across = edge + radius, middle + rng.uniform(-0.03, 0.03)
        edge += 2 * radius
        centres.append((across, along) if upright else (along, across))
    return [(float(x), float(y)) for x, y in centres]


def _overlapping(rng: np.random.Generator, radii: Sequence[float]) -> list[tuple[float, float]]:
    if len(radii) != 2:
        raise ValueError(f"layout overlap needs two objects, got {len(radii)}")
    distance = rng.uniform(0.4, 0.5) * sum(radii)
    direction = rng.uniform(0, 2 * np.pi)
    step = distance / 2 * np.array([np.cos(direction), np.sin(direction)])
    reach = MARGIN + max(radii) + distance / 2
    centre = rng.uniform(reach, 1.0 - reach, 2)
    return [(float(p[0]), float(p[1])) for p in (centre - step, centre + step)]


def _scattered(rng: np.random.Generator, radii: Sequence[float]) -> list[tuple[float, float]]:
    for _ in range(40):
        centres = [rng.uniform(MARGIN + r, 1.0 - MARGIN - r, 2) for r in radii]
        apart = all(
            np.hypot(*(centres[i] - centres[j])) >= radii[i] + radii[j] + 0.02
            for i in range(len(radii))
            for j in range(i)
        )
        if apart:
            return [(float(c[0]), float(c[1])) for c in centres]
    return _in_line(rng, radii, upright=False)
