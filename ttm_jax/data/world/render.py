"""Render a scene at any size with PIL, anti-aliased by 4x supersampling."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from jaxtyping import Float32, Float64, UInt8
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from ttm_jax.data.world.scene import Look, Scene, Thing
from ttm_jax.data.world.shapes import HOLES, OUTLINES
from ttm_jax.errors import InputError

PALETTE: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {
        "red": (217, 45, 52),
        "blue": (43, 98, 214),
        "green": (48, 158, 72),
        "yellow": (250, 212, 48),
        "orange": (245, 134, 30),
        "purple": (126, 58, 178),
        "black": (36, 36, 42),
        "white": (252, 252, 250),
        "pink": (249, 142, 192),
        "brown": (122, 76, 42),
        "turquoise": (44, 196, 190),
    }
)
SUPERSAMPLE = 4
SHADOW = (24, 26, 38)
SHADOW_DEPTH = 97  # of 255
GRAIN_GRID = 64  # noise resolution at every image size: a larger image shows the same grain
SMALLEST = 16


def render(scene: Scene, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Render a scene as an image of `size` x `size` pixels."""
    if size < SMALLEST:
        raise InputError(f"image size {size} is too small; expected at least {SMALLEST} pixels")
    canvas = Image.fromarray(_backdrop(scene.look, size))
    for thing in scene.things:
        _paste(canvas, thing, size)
    return _lit(np.asarray(canvas), scene, size)


def _mix(a: tuple[int, int, int], b: tuple[int, int, int], share: float) -> tuple[int, int, int]:
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def _tones(color: str) -> tuple[tuple[int, int, int], ...]:
    """Fill, texture and outline colour; the last two always contrast with the fill."""
    fill = PALETTE[color]
    white, black = (255, 255, 255), (0, 0, 0)
    if color == "white":
        return fill, (176, 178, 186), (120, 122, 132)
    if color == "black":
        return fill, (150, 152, 162), (112, 114, 124)
    light = color in ("yellow", "pink", "turquoise", "orange")
    return fill, _mix(fill, white, 0.72 if light else 0.62), _mix(fill, black, 0.4)


@lru_cache(maxsize=8)
def _grid(size: int) -> tuple[Float32[np.ndarray, "1 size"], Float32[np.ndarray, "size 1"]]:
    """Pixel centres from -1 to 1; x to the right, y down."""
    line = ((np.arange(size, dtype=np.float32) + 0.5) / size) * 2 - 1
    return line[None, :], line[:, None]


def _backdrop(look: Look, size: int) -> UInt8[np.ndarray, "size size 3"]:
    x, y = _grid(size)
    along = x * np.float32(np.cos(look.angle)) + y * np.float32(np.sin(look.angle))
    share = (along / np.float32(np.sqrt(2)) + 1) / 2
    base, far = np.asarray(look.base, np.float32), np.asarray(look.far, np.float32)
    colors = base + share[..., None] * (far - base)
    if look.pattern != "plain":
        colors *= (1 + np.float32(look.contrast) * _pattern(look, along, x, y))[..., None]
    return np.clip(colors + 0.5, 0, 255).astype(np.uint8)


def _pattern(
    look: Look,
    along: Float32[np.ndarray, "size size"],
    x: Float32[np.ndarray, "1 size"],
    y: Float32[np.ndarray, "size 1"],
) -> Float32[np.ndarray, "size size"]:
    """A smooth pattern between -1 and 1, without edges, so that it looks the same at every size."""
    phase = np.float32(look.phase)
    if look.pattern == "waves":
        return np.sin(along * np.float32(14) + phase)
    columns, rows = np.sin(x * np.float32(13) + phase), np.sin(y * np.float32(13) + phase)
    if look.pattern == "grid":
        return np.maximum(columns**6, rows**6) * np.float32(2) - np.float32(1)
    return np.tanh(columns * rows * np.float32(3))


def _paste(canvas: Image.Image, thing: Thing, size: int) -> None:
    """Draw the shadow, then the shape, each in a tile just large enough."""
    ss, radius = SUPERSAMPLE, thing.radius * size
    blur, drop = 0.014 * size, 0.018 * size
    half = int(np.ceil(radius * 1.2 + 2 * blur + drop)) + 1
    left, top = int(thing.x * size) - half, int(thing.y * size) - half
    side = 2 * half + 1
    to_tile = ss * np.array([thing.x * size - left, thing.y * size - top])
    turn = np.radians(thing.angle)
    matrix = ss * radius * np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])

    def points(polygons: np.ndarray) -> list:
        """Tile coordinates: x, y, x, y, ... for each polygon."""
        moved = polygons @ matrix + to_tile
        return moved.reshape(*moved.shape[:-2], -1).tolist()

    fill, tone, edge = _tones(thing.color)
    mask, tile = Image.new("L", (side * ss,) * 2), Image.new("RGB", (side * ss,) * 2, fill)
    draw_mask, draw_tile = ImageDraw.Draw(mask), ImageDraw.Draw(tile)
    if thing.texture != "plain":
        for polygon in points(_texture(thing.texture)):
            draw_tile.polygon(polygon, fill=tone)
    width = max(2, round(ss * max(0.011 * size, 0.07 * radius)))
    outline = points(OUTLINES[thing.shape])
    draw_mask.polygon(outline, fill=255)
    # Twice the visible width: the mask cuts the outer half. Only sharp corners need joints.
    joint = "curve" if len(outline) <= 24 else None
    draw_tile.line([*outline, *outline[:4]], fill=edge, width=2 * width, joint=joint)
    if thing.shape in HOLES:
        hole = points(HOLES[thing.shape])
        draw_mask.polygon(hole, fill=0)
        draw_tile.line([*hole, *hole[:4]], fill=edge, width=2 * width)
    mask, tile = mask.reduce(ss), tile.reduce(ss)
    soft = mask.filter(ImageFilter.GaussianBlur(blur))
    shadow = ImageChops.multiply(soft, Image.new("L", soft.size, SHADOW_DEPTH))
    offset = (left + round(drop * 0.6), top + round(drop))
    canvas.paste(SHADOW, (*offset, offset[0] + side, offset[1] + side), shadow)
    canvas.paste(tile, (left, top), mask)


@lru_cache(maxsize=8)
def _texture(name: str) -> Float64[np.ndarray, "polygon point 2"]:
    """Polygons of the texture, in the coordinates of the shape."""
    if name == "striped":
        turned = np.array([[0.82, 0.57], [-0.57, 0.82]])
        bar = np.array([(-1.6, -0.13), (1.6, -0.13), (1.6, 0.13), (-1.6, 0.13)])
        offsets = [(0.0, y) for y in np.arange(-1.3, 1.4, 0.52)]
        return np.stack([np.add(bar, offset) @ turned for offset in offsets])
    if name == "dotted":
        t = np.linspace(0, 2 * np.pi, 12, endpoint=False)
        dot = 0.16 * np.stack([np.cos(t), np.sin(t)], axis=1)
        rows = [(j, x) for j in range(-2, 3) for x in np.arange(-1.0, 1.1, 0.5)]
        return np.stack([np.add(dot, (x + 0.25 * (j % 2), 0.44 * j)) for j, x in rows])
    if name == "checked":
        cell = 0.42 * np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
        cells = [(i, j) for i in range(-3, 3) for j in range(-3, 3) if (i + j) % 2]
        return np.stack([np.add(cell, (0.42 * i, 0.42 * j)) for i, j in cells])
    raise ValueError(f"unknown texture {name!r}")


def _lit(
    picture: UInt8[np.ndarray, "size size 3"], scene: Scene, size: int
) -> UInt8[np.ndarray, "size size 3"]:
    """Apply the light and the grain of the scene."""
    look = scene.look
    x, y = _grid(size)
    side = x * np.float32(np.cos(look.shade_angle)) + y * np.float32(np.sin(look.shade_angle))
    dim = 1 - np.float32(look.shade) * (side / np.float32(np.sqrt(2)) + 1) / 2
    lit = picture * (dim[..., None] * np.asarray(look.light, np.float32))
    if look.grain > 0:
        lit += _grain(scene.grain_seed, look.grain, size)[..., None]
    return np.clip(lit + 0.5, 0, 255).astype(np.uint8)


def _grain(seed: int, sigma: float, size: int) -> Float32[np.ndarray, "size size"]:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((GRAIN_GRID, GRAIN_GRID), np.float32) * np.float32(sigma)
    if size == GRAIN_GRID:
        return noise
    return np.asarray(Image.fromarray(noise).resize((size, size), Image.Resampling.BICUBIC))
