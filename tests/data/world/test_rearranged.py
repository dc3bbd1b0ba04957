"""Training scenes with their objects in other places."""

from dataclasses import replace

import numpy as np

from ttm_jax.data.world.captions import Claim
from ttm_jax.data.world.rearranged import (
    TURNS,
    is_pair,
    rearranged_captions,
    rearranged_images,
    rearranged_scenes,
)
from ttm_jax.data.world.scene import MARGIN, related
from ttm_jax.data.world.training import TrainingText, describe, training_scene

FAITHFUL = TrainingText(relation=1.0, color=1.0, wrong=0.0, misbound=0.0, misplaced=0.0)
SCENES = rearranged_scenes(0, 60)


def test_only_the_places_and_the_grain_differ():
    for turns in SCENES:
        assert len(turns) == TURNS
        for scene in turns:
            assert scene.look == turns[0].look
            still = [replace(t, x=0.0, y=0.0) for t in scene.things]
            assert still == [replace(t, x=0.0, y=0.0) for t in turns[0].things]
        assert len({tuple((t.x, t.y) for t in scene.things) for scene in turns}) == TURNS
        assert len({scene.grain_seed for scene in turns}) == TURNS


def test_the_first_turn_is_a_training_scene():
    pairs = [scene for i in range(300) if is_pair(scene := training_scene(0, i))]
    assert [turns[0].things for turns in SCENES] == [scene.things for scene in pairs[: len(SCENES)]]


def test_every_relation_occurs_once_and_opposites_are_two_turns_apart():
    relations = [
        [next(r for r in ("left", "right", "above", "below") if related(*scene.things, r, False))
         for scene in turns]
        for turns in SCENES
    ]  # fmt: skip
    assert {frozenset(names) for names in relations} == {frozenset(relations[0])}
    for names in relations:
        assert {names[0], names[2]} in ({"left", "right"}, {"above", "below"})


def test_nothing_leaves_the_image():
    for turns in SCENES:
        for thing in (thing for scene in turns for thing in scene.things):
            inside = MARGIN + thing.radius - 1e-9
            assert inside <= min(thing.x, thing.y)
            assert max(thing.x, thing.y) <= 1 - inside


def test_scenes_do_not_depend_on_how_many_are_made():
    assert rearranged_scenes(0, 7) == SCENES[:7]
    assert rearranged_scenes(1, 7) != SCENES[:7]


def test_images_and_captions_are_in_the_same_order():
    images = rearranged_images(SCENES[:3], 16)
    captions = rearranged_captions(SCENES[:3], 0, FAITHFUL)
    assert images.shape == (3 * TURNS, 16, 16, 3)
    assert len(captions) == len(images)
    assert captions == rearranged_captions(SCENES, 0, FAITHFUL)[: len(captions)]
    assert captions != rearranged_captions(SCENES[:3], 0, FAITHFUL, draw=1)
    assert np.array_equal(images[TURNS:], rearranged_images(SCENES[1:3], 16))


def test_a_faithful_caption_is_true_of_one_turn_only():
    for number, turns in enumerate(SCENES):
        claim: Claim = describe(np.random.default_rng(number), turns[1], FAITHFUL)
        assert [claim.holds(scene) for scene in turns] == [False, True, False, False]
