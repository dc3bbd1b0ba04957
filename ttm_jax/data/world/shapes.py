"""The outline of every shape as a polygon around the origin, about one unit in radius, y down."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Float64

Polygon = Float64[np.ndarray, "point 2"]


def _polar(angle: np.ndarray, radius: np.ndarray | float) -> Polygon:
    """Points at these angles, clockwise from the top."""
    return np.stack([np.sin(angle) * radius, -np.cos(angle) * radius], axis=1)


def _turn(points: int) -> np.ndarray:
    return np.linspace(0, 2 * np.pi, points, endpoint=False)


def _star() -> Polygon:
    return np.add(_polar(_turn(10), np.where(np.arange(10) % 2, 0.47, 1.1)), (0, 0.06))


def _heart() -> Polygon:
    t = _turn(48)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([x, y - 2.0], axis=1) / 16.0


def _cross() -> Polygon:
    w, r = 0.34, 1.0
    half = [(-w, -r), (w, -r), (w, -w), (r, -w), (r, w), (w, w)]
    return np.array(half + [(-x, -y) for x, y in half])


def _moon() -> Polygon:
    """The unit disc minus a smaller disc beside it, slightly rotated."""
    beside, radius = 0.44, 0.84
    x = (1 + beside**2 - radius**2) / (2 * beside)  # intersection of the two circles
    horn, horn_inside = np.arccos(x), np.arctan2(np.sqrt(1 - x**2), x - beside)
    out = np.linspace(horn, 2 * np.pi - horn, 40)
    back = np.linspace(2 * np.pi - horn_inside, horn_inside, 32)[1:-1]
    outer = np.stack([np.cos(out), np.sin(out)], axis=1)
    inner = radius * np.stack([np.cos(back), np.sin(back)], axis=1) + np.array([beside, 0])
    lean = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    return np.add(np.concatenate([outer, inner]), (0.16, 0)) @ lean * 1.04


def _flower() -> Polygon:
    t = _turn(72)
    return _polar(t, 0.68 + 0.36 * np.abs(np.cos(2.5 * t)))


def _drop() -> Polygon:
    tip = np.array([[0.0, -1.12]])
    round_part = np.linspace(np.radians(62), np.radians(298), 36)
    belly = np.add(_polar(round_part, 0.74), (0, 0.34))
    return np.concatenate([tip, belly])


def _bolt() -> Polygon:
    return np.array(
        [(0.34, -1.12), (-0.78, 0.24), (-0.14, 0.24), (-0.42, 1.12), (0.8, -0.34), (0.1, -0.34)]
    )


OUTLINES: Mapping[str, Polygon] = MappingProxyType(
    {
        "circle": _polar(_turn(48), 0.96),
        "square": np.array([(-0.84, -0.84), (0.84, -0.84), (0.84, 0.84), (-0.84, 0.84)]),
        "triangle": np.array([(0.0, -0.98), (1.02, 0.78), (-1.02, 0.78)]),
        "star": _star(),
        "heart": _heart(),
        "diamond": np.array([(0.0, -1.1), (0.74, 0.0), (0.0, 1.1), (-0.74, 0.0)]),
        "ring": _polar(_turn(48), 1.0),
        "cross": _cross(),
        "moon": _moon(),
        "flower": _flower(),
        "drop": _drop(),
        "bolt": _bolt(),
    }
)
HOLES: Mapping[str, Polygon] = MappingProxyType({"ring": _polar(_turn(40), 0.5)})
