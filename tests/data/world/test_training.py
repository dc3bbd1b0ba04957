"""Images and captions for pretraining: determined by a seed, and the effect of each setting."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttm_jax.data.world.captions import SYNONYMS, Claim
from ttm_jax.data.world.scene import (
    DIRECTIONS,
    OPPOSITE,
    Scene,
)
from ttm_jax.data.world.training import (
    TrainingText,
    describe,
    draw_scene,
    training_captions,
    training_pairs,
    training_scene,
)
from ttm_jax.errors import InputError

FAITHFUL = TrainingText(wrong=0.0, misbound=0.0, misplaced=0.0)


def test_training_pairs_do_not_depend_on_how_many_are_made():
    images, captions = training_pairs(7, 20, size=24)
    assert images.shape == (20, 24, 24, 3)
    later, later_captions = training_pairs(7, 5, size=24, start=15)
    assert np.array_equal(later, images[15:])
    assert later_captions == captions[15:]
    other, other_captions = training_pairs(7, 20, TrainingText(relation=1.0, wrong=0.5), size=24)
    assert np.array_equal(other, images)
    assert other_captions != captions
    assert training_captions(7, 20) == captions
    assert training_captions(7, 20, draw=1) != captions
    assert not np.array_equal(training_pairs(8, 20, size=24)[0], images)


def test_two_processes_make_the_same_pairs(monkeypatch):
    monkeypatch.setattr("ttm_jax.data.world.training.CHUNK", 4)
    images, captions = training_pairs(1, 10, size=16)
    again, captions_again = training_pairs(1, 10, size=16, workers=2)
    assert np.array_equal(images, again)
    assert captions == captions_again


@given(st.integers(0, 10**9))
@settings(max_examples=100, deadline=None)
def test_faithful_captions_are_true(seed):
    rng = np.random.default_rng(seed)
    scene = draw_scene(rng, shift=float(rng.uniform(0, 2)))
    claim = describe(rng, scene, replace(FAITHFUL, relation=0.5))
    assert claim.holds(scene)


@cache
def scenes() -> list[Scene]:
    return [training_scene(0, i) for i in range(800)]


def claims(config: TrainingText, count: int = 800) -> list[tuple[Claim, Scene]]:
    return [
        (describe(np.random.default_rng(i), scene, config), scene)
        for i, scene in enumerate(scenes()[:count])
    ]


def test_knob_relation():
    assert all(c.relation is None for c, _ in claims(replace(FAITHFUL, relation=0.0), 300))
    often = [c.relation for c, s in claims(replace(FAITHFUL, relation=1.0)) if len(s.things) > 1]
    assert np.mean([r is not None for r in often]) > 0.75  # not every pair has a clear relation
    assert set(often) - {None} == set(OPPOSITE)
    usual = Counter(often)
    assert min(usual[d] for d in DIRECTIONS) > 0.7 * max(usual[d] for d in DIRECTIONS)


@pytest.mark.parametrize("knob", ["color", "texture", "size"])
def test_knobs_of_attributes(knob):
    def share(value: float) -> float:
        config = replace(FAITHFUL, relation=0.0, omit=0.0, **{knob: value})
        said = possible = 0
        for claim, scene in claims(config, 400):
            said += sum(m.count for m in claim.mentions if getattr(m, knob) is not None)
            silent = {"texture": "plain", "size": "medium"}.get(knob)
            possible += sum(getattr(t, knob) != silent for t in scene.things)
        return said / possible

    assert share(0.0) == 0.0
    assert share(1.0) > 0.95  # identical objects are not always counted
    assert 0.4 < share(0.5) < 0.6


def test_knob_omit():
    full = claims(replace(FAITHFUL, relation=0.0, omit=0.0), 300)
    assert all(sum(m.count for m in c.mentions) == len(s.things) for c, s in full if _unlike(s))
    less = claims(replace(FAITHFUL, relation=0.0, omit=1.0), 300)
    assert all(
        sum(m.count for m in c.mentions) == max(1, len(s.things) - 1) for c, s in less if _unlike(s)
    )


def _unlike(scene: Scene) -> bool:
    return len({t.shape for t in scene.things}) == len(scene.things)


@pytest.mark.parametrize("knob", ["misbound", "misplaced"])
def test_knobs_of_errors(knob):
    config = replace(FAITHFUL, relation=1.0, color=1.0, **{knob: 1.0})
    related_only = [(c, s) for c, s in claims(config, 400) if c.relation and _unlike(s)]
    assert len(related_only) > 150
    assert not any(claim.holds(scene) for claim, scene in related_only)


def test_knob_wrong():
    """Captions of other images mention none of the visible shapes."""
    config = replace(FAITHFUL, wrong=1.0)
    for i, caption in enumerate(training_captions(0, 200, config)):
        seen = {t.shape for t in scenes()[i].things}
        words = {w for s in seen for w in SYNONYMS.get(s, (s,))}
        assert not any(re.search(rf"\b{w}(s|es)?\b", caption) for w in words), (caption, seen)


@pytest.mark.parametrize("config", [{"wrong": 1.5}, {"relation": -0.1}, {"color": float("nan")}])
def test_knobs_are_probabilities(config):
    with pytest.raises(InputError, match="expected 0 to 1"):
        TrainingText(**config)


@pytest.mark.parametrize("arguments", [(-1, 5), (0, 0)])
def test_training_pairs_refuse(arguments):
    with pytest.raises(InputError, match="expected"):
        training_pairs(*arguments)
