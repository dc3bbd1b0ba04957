"""Rendering of the world's scenes, and how the test split differs."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from world_reader import pixels_of

from ttm_jax.data.world.looks import draw_look
from ttm_jax.data.world.render import PALETTE, render
from ttm_jax.data.world.scene import (
    COLORS,
    SHAPES,
    TEXTURES,
    Scene,
    Thing,
    draw_kinds,
    place,
    shifted_weights,
)
from ttm_jax.data.world.shapes import OUTLINES
from ttm_jax.data.world.training import draw_scene

LOOK = draw_look(np.random.default_rng(0), 0.0)


def test_a_thing_has_its_colour_and_its_place():
    for color, rgb in PALETTE.items():
        look = replace(LOOK, light=(1.0, 1.0, 1.0), shade=0.0, grain=0.0)
        picture = render(Scene((Thing("square", color, x=0.3, y=0.7),), look, 0), 100)
        assert np.array_equal(picture[70, 30], rgb)
        assert np.abs(picture[15, 80] - np.asarray(look.base)).max() < 60


def test_a_thing_leans_clockwise_by_its_angle():
    look = replace(LOOK, light=(1.0, 1.0, 1.0), shade=0.0, grain=0.0)

    def extent(angle: float) -> tuple[float, float, float]:
        where = pixels_of(
            render(Scene((Thing("drop", "blue", angle=angle),), look, 0), 192), "blue"
        )
        height, width = np.ptp(where, axis=0)
        top = where[where[:, 0] == where[:, 0].min()]
        return height, width, top[:, 1].mean() - 0.5

    height, width, tip = extent(0.0)
    assert height > 1.2 * width
    assert abs(tip) < 0.02
    assert extent(20.0)[2] > 0.03
    assert extent(-20.0)[2] < -0.03
    assert extent(90.0)[0] == pytest.approx(width, abs=0.02)


def test_shapes_and_textures_look_different():
    look = replace(LOOK, grain=0.0, pattern="plain")
    for kinds in (
        [Thing(shape, "blue") for shape in SHAPES],
        [Thing("square", "blue", texture) for texture in TEXTURES],
        [Thing("square", color) for color in COLORS],
    ):
        pictures = [render(Scene((thing,), look, 0), 64).astype(int) for thing in kinds]
        for i, a in enumerate(pictures):
            for b in pictures[:i]:
                assert np.abs(a - b).sum() / 3 / 255 > 25  # in fully different pixels


def test_the_same_picture_at_every_size():
    for i in range(12):
        scene = draw_scene(np.random.default_rng(i), shift=1.0)
        scene = replace(scene, look=replace(scene.look, grain=0.0))
        small = render(scene, 64).astype(float)
        large = np.asarray(Image.fromarray(render(scene, 256)).reduce(4)).astype(float)
        assert np.abs(small - large).mean() < 1.5
    assert render(scene, 17).shape == (17, 17, 3)


def test_grain_is_in_the_picture_and_the_same_at_every_size():
    scene = Scene((), replace(LOOK, grain=6.0), 9)
    clean = Scene((), replace(LOOK, grain=0.0), 9)
    noise = render(scene, 64).astype(float) - render(clean, 64)
    assert 5.0 < noise.std() < 7.0
    large = render(scene, 192).astype(float) - render(clean, 192)
    reduced = large.reshape(64, 3, 64, 3, 3).mean((1, 3))
    assert np.corrcoef(noise.ravel(), reduced.ravel())[0, 1] > 0.9


def test_outlines_fill_about_a_unit_circle():
    assert set(OUTLINES) == set(SHAPES)
    for name, points in OUTLINES.items():
        radius = np.hypot(*points.T).max()
        assert 0.9 < radius < 1.35, name
        assert np.abs((points.max(0) + points.min(0)) / 2).max() < 0.12, name


@given(st.integers(0, 10**6), st.sampled_from(["row", "column", "scatter"]), st.integers(1, 3))
@settings(deadline=None)
def test_things_are_inside_the_picture_and_apart(seed, layout, count):
    radii = [0.165 * 0.82 if count == 3 else 0.215] * count
    centres = np.array(place(np.random.default_rng(seed), radii, layout))
    assert centres.min() >= radii[0] + 0.005
    assert centres.max() <= 1 - radii[0] - 0.005
    for i in range(count):
        for j in range(i):
            assert np.hypot(*(centres[i] - centres[j])) >= 2 * radii[0] - 1e-9
    along = centres[:, 0 if layout == "row" else 1]
    if layout != "scatter":
        assert np.all(np.diff(along) > 0)


# --- the shift


def test_a_stronger_shift_is_darker_and_noisier():
    looks = [[draw_look(np.random.default_rng(i), s) for i in range(200)] for s in (0.0, 1.0, 2.0)]
    brightness = [np.mean([np.mean(k.base) * np.mean(k.light) for k in some]) for some in looks]
    assert brightness[0] > brightness[1] + 30 > brightness[2] + 60
    grain = [np.mean([k.grain for k in some]) for some in looks]
    assert grain[0] + 2 < grain[1] < grain[2] - 2


def test_rare_kinds_come_more_often_with_the_shift():
    assert np.array_equal(shifted_weights(COLORS, 0.0), list(COLORS.values()))
    assert np.array_equal(shifted_weights(COLORS, 1.0), np.ones(len(COLORS)))

    def share(shift: float) -> float:
        rng = np.random.default_rng(0)
        seen = Counter(draw_kinds(rng, COLORS, 1, shift)[0] for _ in range(3000))
        return (seen["pink"] + seen["brown"] + seen["turquoise"]) / 3000

    # 0.75 of 7.75 by weight, then 3 of 11; four standard errors are below 0.033.
    assert abs(share(0.0) - 0.75 / 7.75) < 0.03
    assert abs(share(1.0) - 3 / 11) < 0.033
    assert share(2.0) > 0.4
