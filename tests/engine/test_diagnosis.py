"""The diagnosis of the small model on the world, and of data that it cannot judge."""

from dataclasses import replace

import numpy as np
import pytest

import ttm_jax
from ttm_jax.data import world
from ttm_jax.engine.diagnosis import diagnose
from ttm_jax.engine.scores_and_decoys import decoy_blocks
from ttm_jax.errors import InputError


@pytest.fixture(scope="module")
def model():
    return ttm_jax.load_model("small-siglip")


def test_it_tells_knowledge_from_noise(model):
    knows = diagnose(model, world.make("size_swap", groups=60))
    assert knows.go_ahead
    assert knows.precision.value <= knows.true_precision
    assert knows.sentence.startswith("go ahead: of the first 12 groups, about ")
    assert repr(knows) == f"Diagnosis(60 groups, p = {knows.p_value:.2g}; {knows.sentence})"
    blind = diagnose(model, world.make("texture_swap", groups=60))
    assert not blind.go_ahead
    assert "amplify noise" in blind.sentence


def test_labels_are_not_used(model):
    dataset = world.make("size_swap", groups=30)
    with_truth, without = diagnose(model, dataset), diagnose(model, dataset.without_truth())
    assert without.true_accuracy is None
    assert without.true_precision is None
    assert replace(
        with_truth,
        true_accuracy=None,
        true_precision=None,
        blind_accuracy=None,
        margins=without.margins,
    ).sentence == (without.sentence)
    np.testing.assert_array_equal(with_truth.margins.decoys, without.margins.decoys)


def test_the_order_of_images_and_captions_within_groups_makes_no_difference(model):
    dataset = world.make("size_swap", groups=30)
    (block,) = dataset.blocks
    turned = replace(
        block,
        image_index=block.image_index[:, ::-1],
        text_index=np.where(
            np.arange(30)[:, None] % 2, block.text_index, block.text_index[:, ::-1]
        ),
        truth=None,
    )
    usual = diagnose(model, dataset.without_truth())
    moved = diagnose(model, replace(dataset, blocks=(turned,)))
    np.testing.assert_allclose(moved.margins.decoys, usual.margins.decoys, rtol=0, atol=1e-4)
    np.testing.assert_allclose(moved.margins.groups, usual.margins.groups, rtol=0, atol=1e-4)
    assert moved.p_value == pytest.approx(usual.p_value, rel=0.02)


def test_decoys_have_the_captions_of_a_group_and_the_images_of_another():
    dataset = world.make("size_swap", groups=30)
    (block,), (decoys,) = dataset.blocks, decoy_blocks(dataset, 4, 0)
    assert len(decoys) == 120
    for row, (images, texts) in enumerate(zip(decoys.image_index, decoys.text_index, strict=True)):
        group = row // 4
        np.testing.assert_array_equal(texts, block.text_index[group])
        (other,) = np.flatnonzero((block.image_index == images).all(axis=1))
        own = {dataset.caption_text(int(i)) for i in texts}
        assert not own & {dataset.caption_text(int(i)) for i in block.text_index[other]}


def test_too_little_to_say_anything(model):
    with pytest.raises(InputError, match="has 6 groups; a diagnosis needs 20"):
        diagnose(model, world.make("size_swap", groups=6))
    config = ttm_jax.TTMConfig(matching="global", tau_unit="fraction")
    with pytest.raises(InputError, match="needs groups"):
        diagnose(model, world.make("size_swap", groups=30), config)
