"""The captions' prior: against brute force, and what removing it can and cannot change."""

import numpy as np
import pytest

from ttm_jax.errors import InputError
from ttm_jax.matching.caption_prior import (
    CaptionTotals,
    remove_prior,
    subtract_decoys,
    subtract_from_matrix,
)
from ttm_jax.matching.match import match_groups


def pool(seed, groups, images, texts):
    """Scores of all images with all captions, and groups that share some of them."""
    rng = np.random.default_rng(seed)
    every = rng.normal(size=(groups * images, groups * texts)).astype(np.float32)
    every += rng.normal(size=groups * texts, scale=3).astype(np.float32)  # the prior
    image_index = rng.permutation(groups * images).reshape(groups, images).astype(np.int32)
    text_index = rng.permutation(groups * texts).reshape(groups, texts).astype(np.int32)
    image_index[1] = image_index[0]  # an image in two groups
    if images > 1:
        image_index[2, 1] = image_index[2, 0]  # and one that is listed twice
    exact = every.astype(np.float64)
    totals = CaptionTotals(len(every), exact.sum(axis=0), (exact * exact).sum(axis=0))
    scores = every[image_index[:, :, None], text_index[:, None, :]]
    return every, image_index, text_index, totals, scores


@pytest.mark.parametrize("prior", ["subtract", "standardise"])
@pytest.mark.parametrize("shape", [(1, 2), (1, 4), (2, 3)])
def test_brute_force(shape, prior):
    every, image_index, text_index, totals, scores = pool(0, 12, *shape)
    found = remove_prior(scores, image_index, text_index, totals, prior)
    for group, (images, texts) in enumerate(zip(image_index, text_index, strict=True)):
        others = [i for i in range(len(every)) if i not in images]
        for column, text in enumerate(texts):
            noise = every[others, text].astype(np.float64)
            expected = scores[group, :, column] - noise.mean()
            if prior == "standardise":
                expected = expected / noise.std()
            np.testing.assert_allclose(found[group, :, column], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [2, 3])
def test_a_square_group_keeps_its_matching(size):
    _, image_index, text_index, totals, scores = pool(1, 30, size, size)
    plain = match_groups(scores)
    removed = match_groups(remove_prior(scores, image_index, text_index, totals, "subtract"))
    once = np.array([len(set(row)) == size for row in image_index.tolist()])
    assert (plain.matching == removed.matching)[once].all()
    np.testing.assert_allclose(plain.margin[once], removed.margin[once], atol=1e-4)


def test_one_image_and_two_captions_change():
    _, image_index, text_index, totals, scores = pool(2, 100, 1, 2)
    removed = remove_prior(scores, image_index, text_index, totals, "subtract")
    assert (match_groups(scores).matching != match_groups(removed).matching).any()


def test_a_constant_per_caption_makes_no_difference():
    every, image_index, text_index, totals, scores = pool(3, 20, 1, 3)
    shift = np.random.default_rng(0).normal(size=every.shape[1], scale=5)
    moved = every + shift
    other = CaptionTotals(len(every), moved.sum(axis=0), (moved * moved).sum(axis=0))
    again = moved[image_index[:, :, None], text_index[:, None, :]]
    for prior in ("subtract", "standardise"):
        np.testing.assert_allclose(
            remove_prior(scores, image_index, text_index, totals, prior),
            remove_prior(again, image_index, text_index, other, prior),
            atol=1e-4,
        )


@pytest.mark.parametrize(("prior", "images"), [("subtract", 1), ("standardise", 2)])
def test_too_few_other_images(prior, images):
    totals = CaptionTotals(images, np.zeros(2), np.zeros(2))
    one = np.zeros((1, 1), np.int32)
    with pytest.raises(InputError, match="or more images outside each group"):
        remove_prior(np.zeros((1, 1, 2)), one, np.array([[0, 1]], np.int32), totals, prior)


def test_none_is_the_identity():
    _, image_index, text_index, totals, scores = pool(4, 5, 1, 2)
    assert remove_prior(scores, image_index, text_index, totals, "none") is scores


def test_given_decoys():
    rng = np.random.default_rng(5)
    scores, decoys = rng.normal(size=(6, 1, 3)), rng.normal(size=(6, 4, 1, 3))
    found = subtract_decoys(scores, decoys)
    for group in range(6):
        for text in range(3):
            noise = [decoys[group, draw, 0, text] for draw in range(4)]
            assert found[group, 0, text] == pytest.approx(scores[group, 0, text] - np.mean(noise))


def test_a_matrix():
    scores = np.random.default_rng(6).normal(size=(5, 4))
    found = subtract_from_matrix(scores)
    for i in range(5):
        others = [j for j in range(5) if j != i]
        np.testing.assert_allclose(found[i], scores[i] - scores[others].mean(axis=0))
