"""Which units are right and with what margin: the metrics themselves, and ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from ttm_jax.matching.metrics import evaluate, evaluate_global
from ttm_jax.report.checkup.flips import find_flips
from ttm_jax.report.checkup.measure import Scored, margin_of, margins, right

SHAPES = [(2, 2), (1, 2), (1, 4), (2, 3), (3, 3)]


def diagonal(groups: int, images: int) -> np.ndarray:
    return np.broadcast_to(np.arange(images, dtype=np.int32), (groups, images)).copy()


@given(st.sampled_from(SHAPES), st.data())
def test_right_is_the_metric_and_the_margin_has_its_sign(shape, data):
    """Few different values, so that ties are common."""
    values = st.integers(-3, 3).map(float)
    scores = data.draw(arrays(np.float32, (5, *shape), elements=values))
    scored = Scored(scores, diagonal(5, shape[0]))
    lenient = Scored(scores, diagonal(5, shape[0]), ties="right")
    found = evaluate(scores, scored.truth).metrics
    for measure, metric in (("raw", "group_score"), ("simple_match", "group_match")):
        margin = margins(scored, measure)
        np.testing.assert_array_equal(right(scored, measure), found[metric].right)
        np.testing.assert_array_equal(right(scored, measure), margin > 0)
        np.testing.assert_array_equal(right(lenient, measure), margin >= 0)
        assert [margin_of(scored, measure, unit) for unit in range(5)] == margin.tolist()


@pytest.mark.parametrize(
    ("scores", "raw", "simple_match"),
    [
        ([[3.0, 2.0], [1.0, 2.5]], 0.5, 2.5),  # smallest lead: 2.5 over 2 in the second column
        ([[0.4, 0.9], [0.5, 0.8]], -0.5, -0.2),
        ([[2.0, 1.0], [3.0, 2.5]], -1.0, 0.5),
        ([[1.0, 1.0], [1.0, 1.0]], 0.0, 0.0),
    ],
)
def test_margins(scores, raw, simple_match):
    scored = Scored(np.asarray([scores], np.float64), diagonal(1, 2))
    assert margin_of(scored, "raw", 0) == pytest.approx(raw)
    assert margin_of(scored, "simple_match", 0) == pytest.approx(simple_match)


@given(arrays(np.float32, (6, 6), elements=st.integers(-3, 3).map(float)))
def test_an_assignment(whole):
    scored = Scored(np.zeros((3, 2, 2), np.float32), diagonal(3, 2), whole)
    truth = np.arange(6, dtype=np.int32)
    np.testing.assert_array_equal(scored.whole_truth, truth)
    expected = evaluate_global(whole, truth).right
    margin = np.array([margin_of(scored, "global_match", unit) for unit in range(6)])
    np.testing.assert_array_equal(right(scored, "global_match"), expected)
    np.testing.assert_array_equal(margin > 0, expected)
    by_position = Scored(scored.groups, scored.truth, whole, ties="right")
    solved = linear_sum_assignment(whole, maximize=True)[1] == truth
    np.testing.assert_array_equal(right(by_position, "global_match"), solved)


def test_flips_name_the_group_and_both_margins():
    here = np.asarray([[[3.0, 2.0], [1.0, 2.5]], [[2.0, 1.0], [3.0, 2.5]]], np.float32)
    there = here.copy()
    there[1, 1, 0] = 0.5  # the rival of two pairs goes down
    whole = np.asarray(np.eye(4), np.float32)
    scored = [Scored(x, diagonal(2, 2), whole) for x in (here, there)]
    flips = find_flips(*scored, ("raw", "simple_match", "global_match"), ("a", "b"))
    (flip,) = flips
    assert (flip.measure, flip.unit, flip.right_here) == ("raw", "b", False)
    assert (flip.margin_here, flip.margin_there) == (-1.0, 1.0)
    moved = Scored(there, diagonal(2, 2), whole[[0, 2, 1, 3]])
    names = [flip.unit for flip in find_flips(scored[1], moved, ("global_match",), ("a", "b"))]
    assert names == ["a image 1", "b image 0"]
