"""Images and captions for pretraining: many, varied, and as careless as text on the web.

The settings of `TrainingText` control how much a caption omits or gets wrong. A model trained on
such captions recognises objects but is weak at binding colours and positions to them.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
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

# First entry of every seed: images, their captions and the benchmark never share a random stream.
SCENE_STREAM, CAPTION_STREAM = 1, 2
CHUNK = 500
COUNTS_BELOW = (0.2, 0.8)  # cumulative probabilities of one and two objects; otherwise three
ALIKE = 0.1  # of the images with several objects: fraction with identical objects, for counting
LAYOUTS = ("row", "column", "scatter", "overlap")
LAYOUTS_BELOW = (0.4, 0.8, 0.88)


@dataclass(frozen=True)
class TrainingText:
    """How pretraining captions are written; every setting is a probability."""

    relation: float = 0.3
    """State the position of one object relative to another, where it is clear."""
    color: float = 0.9
    """Mention an object's colour."""
    texture: float = 0.5
    """Mention a texture that is not plain."""
    size: float = 0.5
    """Mention a size that is not medium."""
    omit: float = 0.3
    """Leave out one of several objects."""
    wrong: float = 0.05
    """Use the caption of another image."""
    misbound: float = 0.1
    """Exchange the attributes of two objects."""
    misplaced: float = 0.1
    """Reverse a stated relation."""

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
    """Generate images `start` to `start + count - 1` of this seed, with one caption each.

    Image i does not depend on `count`, `workers` or `config`. With two or more workers the caller's
    script must be importable without side effects (`if __name__ == "__main__":`).
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
    """Captions of the same images; a different `draw` rewords them, e.g. for the next epoch."""
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
    return write_caption(np.random.default_rng([CAPTION_STREAM, seed, index, draw]), scene, config)


def write_caption(rng: np.random.Generator, scene: Scene, config: TrainingText) -> str:
    """A caption of this scene, or with probability `wrong` of another one."""
    if rng.random() < config.wrong:
        claim = describe(rng, _another(rng, scene), config)
    else:
        claim = describe(rng, scene, config)
    return say(claim, draw_wording(rng))


def draw_scene(rng: np.random.Generator, shift: float = 0.0) -> Scene:
    """Draw one to three objects, occasionally two or three identical ones."""
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
    """A claim about a scene, true except for the effects of `misbound` and `misplaced`."""
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
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield from pool.map(work, jobs)
    except BrokenProcessPool:
        raise InputError(
            f"the {workers} worker processes could not start; in a script, call this under "
            'if __name__ == "__main__":, or use workers=1'
        ) from None


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
    """Pairs in a clear relation that differ in shape or colour."""
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
    """Merge equal mentions into one with a number, if the image shows exactly that many."""
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
