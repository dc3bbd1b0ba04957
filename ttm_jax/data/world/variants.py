"""The benchmark variants of the world, one function each; every variant mirrors one of the paper.

Within a group the images share the backdrop, the light and every attribute that does not
distinguish the captions; the captions share their wording.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from ttm_jax.data.world.captions import Claim, Mention
from ttm_jax.data.world.looks import draw_angle, draw_look, draw_scale
from ttm_jax.data.world.scene import (
    COLORS,
    CROWDED,
    DIRECTIONS,
    OPPOSITE,
    RADIUS,
    SHAPES,
    SOLID,
    TEXTURES,
    THIN,
    Look,
    Scene,
    Thing,
    draw_kinds,
    draw_texture,
    place,
)
from ttm_jax.errors import InputError

# Two photographs of the same objects are never pixel-identical: centres move by up to this.
JITTER = 0.01


@dataclass(frozen=True)
class Draft:
    """A group before rendering and wording: scene i shows what claim i says."""

    scenes: tuple[Scene, ...]
    claims: tuple[Claim, ...]
    tags: tuple[str, ...]


def _stage(
    rng: np.random.Generator,
    shift: float,
    layout: str,
    count: int = 2,
    size: str = "medium",
    textured: float = 0.2,
    shapes: Mapping[str, float] = SHAPES,
) -> tuple[tuple[Thing, ...], Look]:
    """Objects that differ in shape and colour, and the look shared by all images of a group."""
    names = draw_kinds(rng, shapes, count, shift)
    colors = draw_kinds(rng, COLORS, count, shift)
    radius = RADIUS[size] * draw_scale(rng, shift) * (CROWDED if count == 3 else 1.0)
    if layout == "any":
        layout = ("row", "column")[int(rng.integers(2))]
    textures = [draw_texture(rng, 0.0 if name in THIN else textured) for name in names]
    places = place(rng, [radius] * count, layout)
    things = tuple(
        Thing(name, color, texture, size, x, y, radius, draw_angle(rng, shift))
        for name, color, texture, (x, y) in zip(names, colors, textures, places, strict=True)
    )
    return things, draw_look(rng, shift)


def _picture(rng: np.random.Generator, things: Sequence[Thing], look: Look) -> Scene:
    """One image of the objects, with slight jitter and its own grain."""
    moved = tuple(
        replace(t, x=t.x + float(rng.uniform(-JITTER, JITTER)), y=t.y + float(dy))
        for t, dy in zip(things, rng.uniform(-JITTER, JITTER, len(things)), strict=True)
    )
    return Scene(moved, look, int(rng.integers(2**31)))


def _mention(thing: Thing, *attributes: str) -> Mention:
    texture = thing.texture if "texture" in attributes else None
    size = thing.size if "size" in attributes else None
    return Mention(thing.shape, thing.color, texture, size)


def _say_all(order: Sequence[int], things: Sequence[Thing], *attributes: str) -> Claim:
    return Claim(tuple(_mention(things[i], *attributes) for i in order))


def _order(rng: np.random.Generator, count: int) -> list[int]:
    return [int(i) for i in rng.permutation(count)]


def _color_cycle(rng: np.random.Generator, shift: float, count: int, images: int) -> Draft:
    """In image r, object i has the colour of object i + r."""
    things, look = _stage(rng, shift, "any", count)
    order = _order(rng, count)
    turns = [
        tuple(replace(t, color=things[(i + r) % count].color) for i, t in enumerate(things))
        for r in range(count)
    ]
    return Draft(
        tuple(_picture(rng, turned, look) for turned in turns[:images]),
        tuple(_say_all(order, turned) for turned in turns),
        ("differs:color", f"objects:{count}"),
    )


def _color_swap(rng: np.random.Generator, shift: float) -> Draft:
    return _color_cycle(rng, shift, 2, 2)


def _color_cycle_3x3(rng: np.random.Generator, shift: float) -> Draft:
    return _color_cycle(rng, shift, 3, 3)


def _color_cycle_2x3(rng: np.random.Generator, shift: float) -> Draft:
    return _color_cycle(rng, shift, 3, 2)


def _texture_swap(rng: np.random.Generator, shift: float) -> Draft:
    things, look = _stage(rng, shift, "any", size="large", shapes=SOLID)
    first, second = (TEXTURES[1 + int(i)] for i in rng.permutation(len(TEXTURES) - 1)[:2])
    order = _order(rng, 2)
    both = [
        (replace(things[0], texture=a), replace(things[1], texture=b))
        for a, b in ((first, second), (second, first))
    ]
    return Draft(
        tuple(_picture(rng, pair, look) for pair in both),
        tuple(_say_all(order, pair, "texture") for pair in both),
        ("differs:texture", "objects:2"),
    )


def _shrunk(thing: Thing) -> Thing:
    return replace(thing, size="small", radius=thing.radius * RADIUS["small"] / RADIUS[thing.size])


def _size_swap(rng: np.random.Generator, shift: float) -> Draft:
    # Reserve room for two large objects, whichever becomes the small one.
    (a, b), look = _stage(rng, shift, "any", size="large")
    order = _order(rng, 2)
    both = [(a, _shrunk(b)), (_shrunk(a), b)]
    return Draft(
        tuple(_picture(rng, pair, look) for pair in both),
        tuple(_say_all(order, pair, "size") for pair in both),
        ("differs:size", "objects:2"),
    )


def _exchange(a: Thing, b: Thing) -> tuple[Thing, Thing]:
    """The same two objects with swapped positions."""
    return replace(a, x=b.x, y=b.y), replace(b, x=a.x, y=a.y)


def _relation_pair(rng: np.random.Generator, shift: float, layout: str, relation: str) -> Draft:
    """The same two objects, once in this relation and once in the opposite one."""
    (a, b), look = _stage(rng, shift, layout)
    scenes = [_picture(rng, (a, b), look), _picture(rng, _exchange(a, b), look)]
    # In the first image, `a` is left of (or above) `b`.
    relations = [relation, OPPOSITE[relation]]
    subject, other = a, b
    if rng.random() < 0.5:  # mention `b` first, which reverses the relation
        subject, other = b, a
        relations.reverse()
    if rng.random() < 0.5:
        scenes.reverse()
        relations.reverse()
    mentions = (_mention(subject), _mention(other))
    return Draft(
        tuple(scenes),
        tuple(Claim(mentions, r) for r in relations),
        ("differs:relation", f"relation:{relation}-{OPPOSITE[relation]}", "objects:2"),
    )


def _left_right(rng: np.random.Generator, shift: float) -> Draft:
    return _relation_pair(rng, shift, "row", "left")


def _above_below(rng: np.random.Generator, shift: float) -> Draft:
    return _relation_pair(rng, shift, "column", "above")


def _front_behind(rng: np.random.Generator, shift: float) -> Draft:
    (a, b), look = _stage(rng, shift, "overlap", size="large", shapes=SOLID)
    # Objects drawn later are in front.
    pairs = [((b, a), "front"), ((a, b), "behind")]
    if rng.random() < 0.5:
        pairs.reverse()
    return Draft(
        tuple(_picture(rng, things, look) for things, _ in pairs),
        tuple(Claim((_mention(a), _mention(b)), relation) for _, relation in pairs),
        ("differs:relation", "relation:front-behind", "objects:2"),
    )


def _relation_choice(rng: np.random.Generator, shift: float) -> Draft:
    right, *others = (DIRECTIONS[int(i)] for i in rng.permutation(len(DIRECTIONS)))
    (a, b), look = _stage(rng, shift, "row" if right in ("left", "right") else "column")
    if right in ("right", "below"):
        a, b = _exchange(a, b)
    mentions = (_mention(a), _mention(b))
    return Draft(
        (_picture(rng, (a, b), look),),
        tuple(Claim(mentions, relation) for relation in (right, *others)),
        ("differs:relation", f"relation:{right}", "objects:2"),
    )


def _choice(
    rng: np.random.Generator,
    things: tuple[Thing, Thing],
    look: Look,
    true: Sequence[Mention],
    false: Sequence[Mention],
    tag: str,
    *more: Sequence[Mention],
) -> Draft:
    """One image with the true caption and the false ones, in the same order of mention."""
    order = _order(rng, 2)
    claims = tuple(Claim(tuple(said[i] for i in order)) for said in (true, false, *more))
    return Draft((_picture(rng, things, look),), claims, (tag, "objects:2"))


def _replace_color(rng: np.random.Generator, shift: float) -> Draft:
    (a, b), look = _stage(rng, shift, "any")
    spare = {c: w for c, w in COLORS.items() if c not in (a.color, b.color)}
    false = replace(_mention(a), color=draw_kinds(rng, spare, 1, shift)[0])
    true = (_mention(a), _mention(b))
    return _choice(rng, (a, b), look, true, (false, true[1]), "differs:color")


def _replace_shape(rng: np.random.Generator, shift: float) -> Draft:
    (a, b), look = _stage(rng, shift, "any")
    spare = {s: w for s, w in SHAPES.items() if s not in (a.shape, b.shape)}
    false = replace(_mention(a), shape=draw_kinds(rng, spare, 1, shift)[0])
    true = (_mention(a), _mention(b))
    return _choice(rng, (a, b), look, true, (false, true[1]), "differs:shape")


def _swap_attribute(rng: np.random.Generator, shift: float) -> Draft:
    (a, b), look = _stage(rng, shift, "any")
    true = (_mention(a), _mention(b))
    false = (replace(true[0], color=b.color), replace(true[1], color=a.color))
    return _choice(rng, (a, b), look, true, false, "differs:color")


def _color_choice(rng: np.random.Generator, shift: float) -> Draft:
    """The colours are correct, swapped, or one of them is given to both objects."""
    (a, b), look = _stage(rng, shift, "any")
    true = (_mention(a), _mention(b))
    false = (replace(true[0], color=b.color), replace(true[1], color=a.color))
    alike = ((true[0], false[1]), (false[0], true[1]))
    return _choice(rng, (a, b), look, true, false, "differs:color", *alike)


def _add_attribute(rng: np.random.Generator, shift: float) -> Draft:
    """The true caption omits the attribute that the false caption gets wrong."""
    (a, b), look = _stage(rng, shift, "any", textured=0.0, size="large")
    true = (_mention(a), _mention(b))
    if rng.random() < 0.5:
        false = replace(true[0], texture=TEXTURES[int(rng.integers(1, len(TEXTURES)))])
        return _choice(rng, (a, b), look, true, (false, true[1]), "differs:texture")
    if rng.random() < 0.5:
        a = _shrunk(a)
    false = replace(true[0], size="large" if a.size == "small" else "small")
    return _choice(rng, (a, b), look, true, (false, true[1]), "differs:size")


@dataclass(frozen=True)
class Variant:
    draft: Callable[[np.random.Generator, float], Draft]
    shape: tuple[int, int]  # number of images and captions per group
    about: str


VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        "color_swap": Variant(_color_swap, (2, 2), "two objects swap their colours"),
        "texture_swap": Variant(_texture_swap, (2, 2), "two objects swap their textures"),
        "size_swap": Variant(_size_swap, (2, 2), "a large and a small object swap their sizes"),
        "left_right": Variant(_left_right, (2, 2), "to the left of, or to the right of"),
        "above_below": Variant(_above_below, (2, 2), "above, or below"),
        "front_behind": Variant(_front_behind, (2, 2), "in front of, or behind"),
        "relation_choice": Variant(_relation_choice, (1, 4), "left, right, above or below"),
        "color_choice": Variant(_color_choice, (1, 4), "each object has either colour"),
        "replace_color": Variant(_replace_color, (1, 2), "one colour in the caption is wrong"),
        "replace_shape": Variant(_replace_shape, (1, 2), "one shape in the caption is wrong"),
        "swap_attribute": Variant(_swap_attribute, (1, 2), "the caption swaps the colours"),
        "add_attribute": Variant(_add_attribute, (1, 2), "the caption adds a wrong attribute"),
        "color_cycle": Variant(_color_cycle_3x3, (3, 3), "three objects rotate their colours"),
        "color_cycle_2x3": Variant(_color_cycle_2x3, (2, 3), "the same with one extra caption"),
    }
)


def find_variant(name: str) -> Variant:
    if name not in VARIANTS:
        raise InputError(f"variant {name!r} is not one of {', '.join(VARIANTS)}")
    return VARIANTS[name]
