"""Pictures and captions to pretrain a model on: many, varied, and as careless as text on the web.

The knobs of `TrainingText` say how much a caption leaves out or gets wrong. A model that learns
from such captions knows what things are and is weak in who has which colour and who stands where.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from multiprocessing import get_context

import numpy as np
from jaxtyping import UInt8

from ttm_jax.data.world.captions import Claim, Mention, draw_wording, say
from ttm_jax.data.world.looks import draw_angle, draw_look, draw_scale
from ttm_jax.data.world.render import render
from ttm_jax.data.world.scene import (
    COLORS,
    CROWDED,
    OPPOSITE,
    RADIUS,
    SHAPES,
    THIN,
    Scene,
    Thing,
    draw_kinds,
    draw_texture,
    place,
    related,
)
from ttm_jax.errors import InputError

# First part of every seed: pictures, their captions and the benchmark never share random numbers.
SCENE_STREAM, CAPTION_STREAM = 1, 2
CHUNK = 500
COUNTS_BELOW = (0.2, 0.8)  # one thing, two things, else three
ALIKE = 0.1  # of the pictures with several things: some of them are the same, to be counted
LAYOUTS = ("row", "column", "scatter", "overlap")
LAYOUTS_BELOW = (0.4, 0.8, 0.88)


@dataclass(frozen=True)
class TrainingText:
    """How captions for pretraining are written; every knob is a probability."""

    relation: float = 0.3
    """A caption says where one thing is relative to another, where that is clear."""
    color: float = 0.9
    """A thing is mentioned with its colour."""
    texture: float = 0.5
    """A texture that is not plain is mentioned."""
    size: float = 0.5
    """A size that is not medium is mentioned."""
    omit: float = 0.3
    """One of several things is left out."""
    wrong: float = 0.05
    """The caption belongs to some other picture."""
    misbound: float = 0.1
    """The attributes of two things are exchanged."""
    misplaced: float = 0.1
    """A stated relation is turned around."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0.0 <= value <= 1.0:
                raise InputError(f"TrainingText.{field.name} is {value}; expected 0 to 1")


def training_pairs(
    seed: int,
    count: int,
    config: TrainingText | None = None,
    size: int = 64,
    workers: int = 1,
    start: int = 0,
) -> tuple[UInt8[np.ndarray, "count size size 3"], list[str]]:
    """Pictures `start` to `start + count - 1` of this seed, with one caption each.

    Picture i is the same whatever `count`, `workers` and `config` are. With two or more workers the
    caller's script must be importable without side effects (`if __name__ == "__main__":`).
    """
    config = config or TrainingText()
    _check(seed, count, start)
    images = np.empty((count, size, size, 3), np.uint8)
    captions: list[str] = []
    begins = range(start, start + count, CHUNK)
    jobs = [(begin, min(CHUNK, start + count - begin)) for begin in begins]
    work = partial(_chunk, seed, config, size)
    for (begin, length), (some_images, some_captions) in zip(
        jobs, _run(work, jobs, workers), strict=True
    ):
        images[begin - start : begin - start + length] = some_images
        captions += some_captions
    return images, captions


def training_captions(
    seed: int, count: int, config: TrainingText | None = None, start: int = 0, draw: int = 0
) -> list[str]:
    """Captions of the same pictures; another `draw` words them anew, say for the next epoch."""
    config = config or TrainingText()
    _check(seed, count, start)
    return [
        training_caption(training_scene(seed, i), seed, i, config, draw)
        for i in range(start, start + count)
    ]


def training_scene(seed: int, index: int) -> Scene:
    """Scene number `index` of the training split."""
    return draw_scene(np.random.default_rng([SCENE_STREAM, seed, index]))


def training_caption(
    scene: Scene, seed: int, index: int, config: TrainingText, draw: int = 0
) -> str:
    rng = np.random.default_rng([CAPTION_STREAM, seed, index, draw])
    if rng.random() < config.wrong:
        claim = describe(rng, _another(rng, scene), config)
    else:
        claim = describe(rng, scene, config)
    return say(claim, draw_wording(rng))


def draw_scene(rng: np.random.Generator, shift: float = 0.0) -> Scene:
    """One to three things, now and then two or three alike."""
    count = 1 + int(np.searchsorted(COUNTS_BELOW, rng.random()))
    shapes = draw_kinds(rng, SHAPES, count, shift)
    colors = draw_kinds(rng, COLORS, count, shift)
    sizes = [_draw_size(rng, count) for _ in range(count)]
    textures = [draw_texture(rng, 0.3) for _ in range(count)]
    if count > 1 and rng.random() < ALIKE:
        alike = int(rng.integers(2, count + 1))
        for attribute in (shapes, colors, sizes, textures):
            attribute[:alike] = attribute[:1] * alike
    scale = draw_scale(rng, shift) * (CROWDED if count == 3 else 1.0)
    radii = [RADIUS[size] * scale for size in sizes]
    layout = LAYOUTS[int(np.searchsorted(LAYOUTS_BELOW, rng.random()))]
    if layout == "overlap" and (count != 2 or shapes[0] in THIN):
        layout = "scatter"
    places = place(rng, radii, layout)
    things = tuple(
        Thing(*kind, x=x, y=y, radius=radius, angle=draw_angle(rng, shift))
        for kind, (x, y), radius in zip(
            zip(shapes, colors, textures, sizes, strict=True), places, radii, strict=True
        )
    )
    return Scene(things, draw_look(rng, shift), int(rng.integers(2**31)))


def describe(rng: np.random.Generator, scene: Scene, config: TrainingText) -> Claim:
    """A claim about a scene, true but for what `misbound` and `misplaced` do to it."""
    things = list(scene.things)
    if len(things) > 1 and rng.random() < config.relation:
        pairs = _clear_relations(scene)
        if pairs:
            a, b, relation = pairs[int(rng.integers(len(pairs)))]
            if rng.random() < config.misplaced:
                relation = OPPOSITE[relation]
            mentions = _misbind(rng, [_mention(rng, t, config) for t in (a, b)], config)
            return Claim(tuple(mentions), relation)
    rng.shuffle(things)
    if len(things) > 1 and rng.random() < config.omit:
        things.pop()
    mentions = _counted([_mention(rng, t, config) for t in things], scene)
    return Claim(tuple(_misbind(rng, mentions, config)))


def _check(seed: int, count: int, start: int) -> None:
    if count < 1:
        raise InputError(f"count is {count}; expected at least 1")
    if seed < 0 or start < 0:
        raise InputError(f"seed is {seed} and start is {start}; expected 0 or more")


def _chunk(
    seed: int, config: TrainingText, size: int, job: tuple[int, int]
) -> tuple[np.ndarray, list[str]]:
    start, count = job
    scenes = [training_scene(seed, i) for i in range(start, start + count)]
    images = np.stack([render(scene, size) for scene in scenes])
    captions = [training_caption(scene, seed, start + i, config) for i, scene in enumerate(scenes)]
    return images, captions


def _run(work: partial, jobs: list[tuple[int, int]], workers: int) -> Iterator:
    if workers <= 1:
        yield from map(work, jobs)
        return
    # Not fork: a process that has started JAX has threads, and a forked copy of it can hang.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, jobs)


def _draw_size(rng: np.random.Generator, count: int) -> str:
    pick = rng.random()
    if pick < 0.2:
        return "small"
    return "large" if pick < 0.4 and count < 3 else "medium"  # three large ones do not fit


def _another(rng: np.random.Generator, scene: Scene) -> Scene:
    shapes = {thing.shape for thing in scene.things}
    while True:
        other = draw_scene(rng)
        if not shapes & {thing.shape for thing in other.things}:
            return other


def _clear_relations(scene: Scene) -> list[tuple[Thing, Thing, str]]:
    """Pairs that stand in a clear relation and that differ in shape or colour."""
    return [
        (a, b, relation)
        for i, a in enumerate(scene.things)
        for j, b in enumerate(scene.things)
        if i != j and (a.shape, a.color) != (b.shape, b.color)
        for relation in OPPOSITE
        if related(a, b, relation, i > j)
    ]


def _mention(rng: np.random.Generator, thing: Thing, config: TrainingText) -> Mention:
    color, texture, size = rng.random(3)
    return Mention(
        shape=thing.shape,
        color=thing.color if color < config.color else None,
        texture=thing.texture if texture < config.texture and thing.texture != "plain" else None,
        size=thing.size if size < config.size and thing.size != "medium" else None,
    )


def _counted(mentions: list[Mention], scene: Scene) -> list[Mention]:
    """Equal mentions become one with a number, if the number is what the picture shows."""
    merged = []
    for mention in dict.fromkeys(mentions):
        shown = sum(mention.fits(thing) for thing in scene.things)
        count = mentions.count(mention)
        merged.append(replace(mention, count=count if count == shown else 1))
    return merged


def _misbind(
    rng: np.random.Generator, mentions: list[Mention], config: TrainingText
) -> list[Mention]:
    if len(mentions) < 2 or rng.random() >= config.misbound:
        return mentions
    a, b, *rest = mentions
    return [
        replace(a, color=b.color, texture=b.texture, size=b.size),
        replace(b, color=a.color, texture=a.texture, size=a.size),
        *rest,
    ]
