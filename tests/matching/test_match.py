"""Exact comparison of matching with brute force; ties, permutations, selection."""

import math
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import best_matching, pairs_of_every_best
from hypothesis import given, settings
from hypothesis import strategies as st

from ttm_jax.errors import InputError
from ttm_jax.matching.assignment import match_large_group
from ttm_jax.matching.exhaustive import MOST_MATCHINGS, count_matchings, rounding_of
from ttm_jax.matching.match import GroupMatching, match_global, match_groups
from ttm_jax.matching.thresholds import select, select_global, tau_for_coverage

SHAPES = [(m, k) for m in range(1, 5) for k in range(m, 7)]
# Integers produce ties; the others produce sums that round, from one scale and from all scales.
WHOLE = st.integers(-2, 2).map(float)
LOGITS = st.floats(-30, 30, width=32)
ANY = st.floats(-1e300, 1e300)
ANY_32 = st.floats(-(2.0**100), 2.0**100, width=32)


def groups_of(*elements: st.SearchStrategy[float], shapes=SHAPES, dtype=np.float64):
    """[group, image, text] with 1 to 3 groups, in either orientation."""
    return st.tuples(
        st.sampled_from(shapes), st.booleans(), st.integers(1, 3), st.sampled_from(elements)
    ).flatmap(
        lambda drawn: hnp.arrays(
            dtype,
            (drawn[2], *(drawn[0][::-1] if drawn[1] else drawn[0])),
            elements=drawn[3],
        )
    )


@pytest.mark.parametrize(
    ("scores", "matching", "margin"),
    [
        ([[3, 1], [2, 4]], [0, 1], 4.0),
        ([[1, 3], [4, 2]], [1, 0], 4.0),
        ([[5, 4], [4, 3.5]], [0, 1], 0.5),  # both images prefer caption 0; the total decides
        ([[1, 5, 2]], [1], 3.0),
        ([[1], [5], [2]], [-1, 0, -1], 3.0),  # 3 images, 1 caption
        ([[1, 2, 3], [1, 2, 9]], [1, 2], 1.0),
        ([[9, 0, 0], [0, 9, 0], [0, 0, 9]], [0, 1, 2], 18.0),
        ([[0, 0, 7], [7, 0, 0], [0, 7, 0]], [2, 0, 1], 14.0),
        ([[7]], [0], math.inf),  # no other matching exists
    ],
)
def test_literal_groups(scores, matching, margin):
    found = match_groups(np.array([scores], np.float32))
    assert found.matching.tolist() == [matching]
    assert found.margin.tolist() == [margin]
    assert found.unique.tolist() == [True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "scores",
    [
        [[1, 1], [1, 1]],
        [[2, 2, 1]],
        [[3, 3, 0], [0, 0, 1], [5, 5, 0]],  # captions 0 and 1 are identical to the model
        # equal as decimal fractions, though not in the last binary digit
        [[0.9, 0.5], [0.5, 0.1]],
        [[0.1, 0.3], [0.0, 0.2]],
        [[0.1, 0.3, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 9.6]],
        [[10.1, 10.3], [10.3, 10.5]],
    ],
)
def test_a_tie_has_no_margin_and_is_never_selected(scores, dtype):
    found = match_groups(np.array([scores], dtype))
    assert found.margin.tolist() == [0.0]
    assert found.unique.tolist() == [False]
    for tau in (-math.inf, -1.0, 0.0, 1.0):
        assert not select(found.margin, found.unique, tau).any()


def test_row_winners_are_best_however_close_the_others_come():
    # float64 adds 1 + 1e-30 + 1e-30 to 1, which is also the total of another matching
    scores = np.array([[[1, 0, 0], [0, 1e-30, 0], [0, 0, 1e-30]]])
    found = match_groups(scores)
    assert found.matching.tolist() == [[0, 1, 2]]
    assert found.margin.tolist() == [2e-30]
    assert found.unique.tolist() == [True]
    next_up = np.nextafter(0.3, 1)
    assert match_groups([[[0.3, next_up]]]).matching.tolist() == [[1]]


def resolution(scores: np.ndarray, dtype=np.float64) -> Fraction:
    """A margin that rounding certainly cannot explain."""
    images = min(scores.shape)
    return 8 * images * Fraction(rounding_of(np.dtype(dtype), images) * np.abs(scores).max())


def row_winners(scores: np.ndarray) -> tuple[int, ...] | None:
    """The matching that wins every row of the smaller side by comparison alone, if there is one."""
    rows = scores if scores.shape[0] <= scores.shape[1] else scores.T
    wins = [np.flatnonzero(row == row.max()).tolist() for row in rows]
    if any(len(w) > 1 for w in wins) or len({w[0] for w in wins}) < len(wins):
        return None
    if rows is scores:
        return tuple(w[0] for w in wins)
    return tuple(next((t for t, w in enumerate(wins) if w[0] == i), -1) for i in range(len(scores)))


@settings(max_examples=250, deadline=None)
@given(groups_of(WHOLE, LOGITS, ANY) | groups_of(WHOLE, LOGITS, ANY_32, dtype=np.float32))
def test_agrees_with_brute_force(scores):
    found = match_groups(scores)
    for group, block in enumerate(scores):
        matching, margin = best_matching(block)
        assert found.margin[group] >= 0
        assert found.unique[group] == (found.margin[group] > 0)
        if margin is None:
            assert found.margin[group] == math.inf
            continue
        fine = resolution(block.astype(np.float64), scores.dtype)
        assert abs(Fraction(float(found.margin[group])) - margin) <= fine
        if margin == 0:
            assert not found.unique[group]
        if margin > fine or row_winners(block) is not None:
            assert found.unique[group]
        if found.unique[group]:
            assert tuple(found.matching[group]) == matching


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["whole", "float32"])
def test_every_shape_up_to_4x6_agrees_with_brute_force(shape, kind):
    rng = np.random.default_rng(shape[0] * 10 + shape[1])
    scores = rng.integers(-3, 4, (8, *shape)) if kind == "whole" else rng.normal(size=(8, *shape))
    scores = scores.astype(np.float32)
    found = match_groups(scores)
    for group, block in enumerate(scores):
        matching, margin = best_matching(block)
        assert found.unique[group] == (matching is not None)
        assert matching is None or tuple(found.matching[group]) == matching
        # sums of float32 values of one scale are exact in float64
        assert found.margin[group] == (math.inf if margin is None else float(margin))


@settings(max_examples=150, deadline=None)
@given(
    groups_of(WHOLE, LOGITS, ANY) | groups_of(WHOLE, LOGITS, ANY_32, dtype=np.float32),
    st.randoms(use_true_random=False),
    st.floats(-1, 3),
)
def test_permuting_a_group_permutes_its_matching_and_changes_nothing_else(scores, random, tau):
    _, images, texts = scores.shape
    rows, columns = random.sample(range(images), images), random.sample(range(texts), texts)
    before, after = match_groups(scores), match_groups(scores[:, rows][:, :, columns])
    np.testing.assert_array_equal(before.margin, after.margin)  # to the last bit
    np.testing.assert_array_equal(before.unique, after.unique)
    np.testing.assert_array_equal(
        select(before.margin, before.unique, tau), select(after.margin, after.unique, tau)
    )
    back = np.array([*columns, -1])  # after[i'] is a new caption index; -1 stays -1
    where = before.unique
    np.testing.assert_array_equal(back[after.matching[where]], before.matching[where][:, rows])


def assert_same(one: GroupMatching, other: GroupMatching) -> None:
    np.testing.assert_array_equal(one.margin, other.margin)
    np.testing.assert_array_equal(one.unique, other.unique)
    np.testing.assert_array_equal(one.matching[one.unique], other.matching[one.unique])


def test_float32_and_jax_arrays_and_integers_are_taken_exactly():
    scores = np.array([[[0.1, 0.7], [0.4, 0.2]]], np.float32)
    expected = match_groups(scores.astype(np.float64))
    assert_same(expected, match_groups(scores))
    assert_same(expected, match_groups(jnp.asarray(scores)))
    half = jnp.asarray(scores, jnp.bfloat16)
    assert_same(match_groups(np.asarray(half, np.float64)), match_groups(half))
    assert match_groups(np.array([[[3, 1], [2, 4]]])).margin.tolist() == [4.0]


@settings(max_examples=80, deadline=None)
@given(groups_of(WHOLE, LOGITS, shapes=[s for s in SHAPES if s != (1, 1)]))
def test_the_assignment_solver_agrees_with_the_exhaustive_search(scores):
    if scores.shape[1] > scores.shape[2]:
        scores = scores.transpose(0, 2, 1)
    expected = match_groups(scores)
    for group, block in enumerate(scores):
        matching, margin = match_large_group(block)
        # the grid of the solver is coarser than the rounding of float64
        coarse = float(np.abs(block).max()) * 2.0**-44
        if expected.margin[group] > coarse:
            assert matching.tolist() == expected.matching[group].tolist()
            assert margin == pytest.approx(expected.margin[group], rel=0, abs=coarse)
        if not expected.unique[group]:
            assert margin == 0
        if row_winners(block) is not None:
            assert tuple(matching) == row_winners(block)
            assert margin > 0


@pytest.mark.parametrize("shape", [(7, 7), (5, 7), (2, 40), (1, 1200), (9, 4)])
def test_large_groups(shape):
    assert count_matchings(*shape) > MOST_MATCHINGS
    rng = np.random.default_rng(0)
    # a hidden best matching: each of its pairs gains 1, and the rest is below 0.1
    images, texts = shape
    side = min(shape)
    scores = rng.uniform(-0.1, 0.1, (4, *shape)).astype(np.float32)
    truth = np.full((4, images), -1)
    for group in range(4):
        rows, columns = rng.permutation(images)[:side], rng.permutation(texts)[:side]
        scores[group, rows, columns] += 1
        truth[group, rows] = columns
    scores[3] = np.round(scores[3])  # integers: many other matchings tie, but not the best
    found = match_groups(scores)
    np.testing.assert_array_equal(found.matching, truth)
    assert found.unique.all()
    assert found.margin[3] == (2 if images == texts else 1)
    rows, columns = rng.permutation(images), rng.permutation(texts)
    moved = match_groups(scores[:, rows][:, :, columns])
    np.testing.assert_array_equal(moved.margin, found.margin)  # to the last bit


def test_a_large_group_with_two_equal_captions_is_tied():
    scores = np.random.default_rng(0).normal(size=(3, 7, 7)).astype(np.float32)
    scores[:, :, 4] = scores[:, :, 2]
    assert match_groups(scores).margin.tolist() == [0, 0, 0]


def test_a_mask_does_not_blunt_the_rest():
    """-1e9 for "never" must not set the scale on which the other scores are compared."""
    scores = np.full((8, 8), -1e9, np.float32)
    scores[np.arange(8), np.arange(8)] = 1
    scores[np.arange(8), (np.arange(8) + 1) % 8] = 1 + 1e-6  # the other cycle wins by very little
    assert match_global(scores).matching.tolist() == [1, 2, 3, 4, 5, 6, 7, 0]
    found = match_groups(scores[None])
    assert found.matching.tolist() == [[1, 2, 3, 4, 5, 6, 7, 0]]
    assert found.margin[0] == pytest.approx(8e-6, rel=0.1)


def test_second_best_of_a_7x7_group_by_brute_force():
    scores = np.random.default_rng(3).normal(size=(7, 7)).astype(np.float32)
    matching, margin = best_matching(scores)
    found = match_groups(scores[None])
    assert tuple(found.matching[0]) == matching
    assert found.margin[0] == float(margin)


# Global matching


@st.composite
def matrices(draw, elements=WHOLE):
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 6)))
    return draw(hnp.arrays(np.float64, shape, elements=elements))


@settings(max_examples=200, deadline=None)
@given(matrices())
def test_a_global_pair_is_unique_if_all_best_assignments_have_it(scores):
    found = match_global(scores)
    common = pairs_of_every_best(scores)
    assert np.flatnonzero(found.unique).tolist() == sorted(common)
    assert {i: int(found.matching[i]) for i in common} == common
    taken = found.matching[found.matching >= 0]
    assert len(set(taken.tolist())) == len(taken) == min(scores.shape)
    assert np.isneginf(found.similarity[found.matching < 0]).all()


def test_global_matching_of_distinct_numbers_is_unique_and_best():
    rng = np.random.default_rng(1)
    for shape in ((5, 5), (4, 6), (6, 4)):
        scores = rng.normal(size=shape).astype(np.float32)
        found = match_global(scores)
        assert tuple(found.matching) == best_matching(scores)[0]
        assert found.unique.sum() == min(shape)
        pairs = found.matching >= 0
        np.testing.assert_array_equal(found.similarity[pairs], scores[pairs, found.matching[pairs]])


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([(12, 12), (9, 14), (14, 9)]),
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 0.5, 0.9]),
)
def test_permuting_a_matrix_permutes_the_selected_pairs(shape, seed, whole, tau):
    """No label can leak: the selected pairs do not depend on the order of images and captions."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, shape) if whole else rng.normal(size=shape)
    scores = scores.astype(np.float32)
    scores[3], scores[:, 5] = scores[2], scores[:, 4]  # the same image, the same caption, twice
    rows, columns = rng.permutation(shape[0]), rng.permutation(shape[1])
    found, moved = match_global(scores), match_global(scores[rows][:, columns])

    def pairs(matching, image_of, text_of):
        chosen = select_global(matching.similarity, matching.unique, tau)
        return {(image_of[i], text_of[matching.matching[i]]) for i in np.flatnonzero(chosen)}

    expected = pairs(found, range(shape[0]), range(shape[1]))
    assert pairs(moved, rows.tolist(), columns.tolist()) == expected


def test_a_model_that_knows_nothing_selects_nothing_globally():
    found = match_global(np.ones((6, 6), np.float32))
    assert not found.unique.any()
    assert not select_global(found.similarity, found.unique, 0.0).any()


def test_doubled_captions_are_left_out_and_the_rest_is_kept():
    scores = np.eye(4, dtype=np.float32)
    scores = np.concatenate([scores, scores[:, :1]], axis=1)  # caption 4 duplicates caption 0
    found = match_global(scores)
    assert found.unique.tolist() == [False, True, True, True]
    assert found.matching[1:].tolist() == [1, 2, 3]


# Selection


def test_selection_includes_the_threshold_and_needs_a_unique_matching():
    margin, unique = np.array([0.0, 0.5, 2.0, 2.5]), np.array([False, True, True, True])
    assert select(margin, unique, 2.0).tolist() == [False, False, True, True]
    assert select(margin, unique, 0.0).tolist() == [False, True, True, True]
    with pytest.raises(InputError, match="tau is nan"):
        select(margin, unique, math.nan)


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        (1.0, []),
        (0.9, [9]),  # 10 * (1 - 0.9) is 0.99..98 in floating point
        (0.95, []),  # half a pair is not a pair
        (0.7, [7, 8, 9]),
        (0.5, [4, 5, 6, 7, 8, 9]),  # the fifth has the score of the sixth
        (0.0, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_global_selection_takes_a_share(tau, expected):
    similarity = np.array([0, 1, 2, 3, 5, 5, 6, 7, 8, 9], np.float64)
    chosen = select_global(similarity, np.ones(10, bool), tau)
    assert np.flatnonzero(chosen).tolist() == expected


def test_global_selection_never_looks_at_pairs_that_are_not_unique():
    similarity = np.array([9, 8, 7, 6], np.float64)
    unique = np.array([False, True, True, True])
    assert select_global(similarity, unique, 0.5).tolist() == [False, True, True, False]
    assert select_global(similarity, unique, 0.0).tolist() == [False, True, True, True]
    assert not select_global(similarity, np.zeros(4, bool), 0.0).any()
    left_over = np.array([3.0, -np.inf, 1.0])  # 3 images, 2 captions: 2 pairs
    assert select_global(left_over, np.array([True, False, True]), 0.5).tolist() == [1, 0, 0]
    with pytest.raises(InputError, match="tau is 2"):
        select_global(similarity, unique, 2.0)


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 30), elements=st.integers(0, 6).map(float)),
    st.floats(0.01, 1),
)
def test_tau_for_coverage_selects_enough_and_no_more_than_it_must(margin, coverage):
    unique = margin > 0
    tau = tau_for_coverage(margin, unique, coverage)
    wanted = math.ceil(coverage * len(margin) - 1e-10)
    selected = int(select(margin, unique, tau).sum())
    if unique.sum() >= wanted:
        assert selected >= wanted
        assert (margin[unique] > tau).sum() < wanted
    else:
        assert tau == 0
        assert selected == unique.sum()


@pytest.mark.parametrize("coverage", [0.0, -0.1, 1.1])
def test_a_coverage_that_is_no_share_is_refused(coverage):
    with pytest.raises(InputError, match="coverage is"):
        tau_for_coverage(np.ones(3), np.ones(3, bool), coverage)


# Rejected input


def with_bad(place: int, value: float) -> np.ndarray:
    scores = np.zeros((3, 2, 2))
    scores.flat[place] = value
    return scores


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (with_bad(6, np.nan), "group 1, image 1, caption 0 is nan"),
        (with_bad(9, -np.inf), "group 2, image 0, caption 1 is -inf"),
        (with_bad(0, 1e305), "group 0, image 0, caption 0 is 1e.305"),
        (np.full((2, 2, 2), np.inf, np.float32), "group 0, image 0, caption 0 is inf"),
        (np.zeros((0, 2, 2)), "0 x 2 x 2: there is no group"),
        (np.zeros((3, 0, 2)), "there is no image"),
        (np.zeros((3, 2, 0)), "there is no caption"),
        (np.zeros((2, 2)), "2 x 2: expected 3 axes"),
        (np.zeros(()), "expected 3 axes"),
        (np.zeros((2, 2, 2), complex), "complex128"),
        (np.full((2, 2, 2), "a"), "expected real numbers"),
        ([[[1.0, 2.0], [3.0]]], "different lengths"),
    ],
)
def test_bad_scores_are_refused_with_their_place(scores, message):
    with pytest.raises(InputError, match=message):
        match_groups(scores)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([[0, 1], [np.nan, 0]]), "image 1, caption 0 is nan"),
        (np.zeros((2, 2, 2)), "2 x 2 x 2: expected 2 axes"),
        (np.zeros((0, 3)), "there is no image"),
    ],
)
def test_a_bad_matrix_is_refused_with_its_place(scores, message):
    with pytest.raises(InputError, match=message):
        match_global(scores)
