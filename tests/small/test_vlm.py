"""The small SmolVLM: its training data, its image tower, and that it is trained only once."""

from dataclasses import replace

import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from tiny import tiny_model

from ttm_jax.data.world import training_captions
from ttm_jax.files import read_json
from ttm_jax.load import load_model
from ttm_jax.small.vlm import FALSE, RECIPE, TRUE, draw_batch, small_vlm, training_data
from ttm_jax.small.vlm_start import initial_params, untrained

QUICK = replace(
    RECIPE, image_size=16, vision_width=32, vision_depth=1, width=24, depth=2, heads=2, kv_heads=1,
    scenes=40, steps=3, warmup=1, batch=4, image_tower=None,
)  # fmt: skip


def test_captions_are_true_or_false_of_their_picture():
    _, texts, choices = training_data(QUICK)
    true = training_captions(QUICK.seed, QUICK.scenes, TRUE)
    false = training_captions(QUICK.seed, QUICK.scenes, FALSE)
    assert [texts[row] for row in choices[:, 0]] == true
    exchanged = choices[:, 1] >= 0
    assert 10 < exchanged.sum() < 40
    for a, b, changed in zip(true, false, exchanged, strict=True):
        assert changed == (a != b)
    same_words = [
        sorted(a.replace(",", "").split()) == sorted(b.replace(",", "").split())
        for a, b, changed in zip(true, false, exchanged, strict=True)
        if changed
    ]
    assert np.mean(same_words) > 0.3, "many false captions differ in nothing but the order"


def test_batches_hold_one_true_caption_a_picture():
    choices = np.asarray([[10, 20], [11, -1], [12, 22], [13, -1]], np.int32)
    batch = draw_batch(np.random.default_rng(0), choices, 4, 3)
    np.testing.assert_array_equal(batch.label.sum(axis=1), 1)
    for image, text in zip(batch.image, batch.text, strict=True):
        assert len(set(image)) == 1
        true, false = choices[image[0]]
        assert text[0] == true
        assert text[1] == false if false >= 0 else text[1] in (10, 11, 12, 13)
        assert text[2] in (10, 11, 12, 13)


def test_parameters_to_start_from_have_unit_gain(tmp_path):
    model = untrained(QUICK, tmp_path, ["a red circle", "a blue square"])
    params = initial_params(model.config, 0)
    for path, leaf in params.items():
        if path.endswith("/scale"):
            assert (leaf == 1).all()
        elif path.endswith("/bias"):
            assert (leaf == 0).all()
    inputs = {"txt/head/kernel": 24, "img/head/kernel": 4 * 32, "img/embedding/kernel": 8 * 8 * 3}
    for path, count in inputs.items():
        assert params[path].std() == pytest.approx(count**-0.5, rel=0.2)


def test_it_is_made_once_from_the_image_tower_of_a_siglip(tmp_path):
    siglip = tiny_model("siglip")
    siglip.save(tmp_path / "siglip")
    seen = []
    recipe = replace(QUICK, image_tower=str(tmp_path / "siglip"), shuffle=1)
    folder = small_vlm(tmp_path / "vlm", recipe, lambda step, loss: seen.append(loss))
    assert len(seen) == QUICK.steps
    assert np.isfinite(seen).all()
    assert read_json(folder / "recipe.json")["recipe"]["steps"] == QUICK.steps
    assert not list(tmp_path.glob(".vlm*"))
    model = load_model(folder)
    assert (model.config.image_size, model.config.patch_size) == (16, 8)
    before = flatten_dict(siglip.params["img"], sep="/")
    after = flatten_dict(model.params["img"], sep="/")
    shared = [path for path in after if path in before]
    assert set(after) - set(shared) == {"head/kernel"}  # the connector
    for path in shared:
        np.testing.assert_array_equal(after[path], before[path])  # frozen
    again = small_vlm(tmp_path / "vlm", recipe, lambda step, loss: seen.append(loss))
    assert again == folder
    assert len(seen) == QUICK.steps
    scores = model.score([np.zeros((20, 30, 3), np.uint8)], ["a red circle", "a blue star"])
    assert scores.shape == (1, 2)
