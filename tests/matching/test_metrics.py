"""Metrics compared with literal tables and with a direct implementation of their definitions."""

import math
from decimal import ROUND_HALF_UP, Decimal

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ttm_jax.errors import InputError
from ttm_jax.matching import chance
from ttm_jax.matching.checks import diagonal
from ttm_jax.matching.coverage_curve import global_coverage, group_coverage, taus_for_shares
from ttm_jax.matching.match import match_groups
from ttm_jax.matching.metrics import by_tag, evaluate, evaluate_global
from ttm_jax.matching.rate_interval import Rate, error_reduction, relative_gain, wilson_interval

ANY = st.floats(-1e300, 1e300)
NEAR = st.sampled_from([1.0, float(np.nextafter(1, 2)), float(np.nextafter(1, 0)), 0.0, 1e-30])
SHAPES = [(m, k) for m in range(1, 5) for k in range(1, 5)]


def counts(scores, truth="diagonal"):
    """Metric name -> count."""
    scores = np.array(scores, np.float32)
    found = evaluate(scores, diagonal(scores) if truth == "diagonal" else truth)
    return {name: rate.count for name, rate in found.rates().items()}


@pytest.mark.parametrize(
    ("scores", "text", "image", "group", "match", "individual"),
    [
        ([[3, 1], [1, 3]], 1, 1, 1, 1, 2),
        ([[1, 3], [3, 1]], 0, 0, 0, 0, 0),
        ([[5, 4], [3, 1]], 0, 0, 0, 0, 1),  # 6 < 7: the crossed matching is better
        ([[5, 4], [3, 2.5]], 0, 0, 0, 1, 1),  # 7.5 > 7, although image 1 prefers caption 0
        ([[2, 1], [9, 10]], 1, 0, 0, 1, 2),  # caption 0 prefers image 1
        ([[2, 9], [1, 10]], 0, 1, 0, 1, 1),
        ([[1, 1], [1, 1]], 0, 0, 0, 0, 0),  # a tie counts as wrong
        ([[3, 3], [1, 3]], 0, 0, 0, 1, 1),  # image 0 ties with itself, the matching does not
        ([[9, 1, 1], [1, 9, 1], [1, 1, 9]], 1, 1, 1, 1, 3),
        ([[5, 6, 0], [0, 5, 0], [0, 0, 5]], 0, 0, 0, 1, 2),
    ],
)
def test_square_groups(scores, text, image, group, match, individual):
    assert counts([scores]) == {
        "text_score": text,
        "image_score": image,
        "group_score": group,
        "group_match": match,
        "individual_match": individual,
    }


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # 1 x k: all metrics ask the same question
        ([[3, 1, 2]], {"text_score": 1, "group_score": 1, "group_match": 1, "individual_match": 1}),
        ([[3, 3, 2]], {"text_score": 0, "group_score": 0, "group_match": 0, "individual_match": 0}),
        # 2 x 3: image 0 prefers the caption of image 1, but the best matching is correct
        (
            [[5, 6, 0], [0, 9, 8.5]],
            {"text_score": 0, "group_score": 0, "group_match": 0, "individual_match": 1},
        ),
        (
            [[5, 6, 0], [0, 9, 1]],
            {"text_score": 0, "group_score": 0, "group_match": 1, "individual_match": 1},
        ),
        # more images than captions: evaluated from the captions
        (
            [[5, 0], [6, 9], [0, 1]],
            {"image_score": 0, "group_score": 0, "group_match": 1, "individual_match": 1},
        ),
        ([[3], [1]], {"image_score": 1, "group_score": 1, "group_match": 1, "individual_match": 1}),
    ],
)
def test_rectangular_groups(scores, expected):
    assert counts([scores]) == expected


def test_individual_match_counts_images():
    found = evaluate(np.array([[[2, 1], [2, 1]], [[2, 1], [1, 2]]], np.float32), [[0, 1], [0, 1]])
    assert found.rates()["individual_match"] == Rate(3, 4, 0.5)
    assert found.rates()["text_score"] == Rate(1, 2, 0.25)


def test_truth_that_is_not_the_diagonal():
    scores = [[[1, 9], [9, 1]], [[9, 1], [1, 9]]]
    assert counts(scores, [[1, 0], [0, 1]])["group_score"] == 2
    assert counts(scores, [[1, 0], [1, 0]])["group_match"] == 1
    assert counts([[[0, 0, 9], [0, 9, 0]]], [[2, 1]])["text_score"] == 1
    assert counts([[[0, 5], [0, 0], [7, 0]]], [[1, -1, 0]])["group_score"] == 1


def test_without_truth_only_matchings_come_out():
    scores = np.array([[[3, 1], [1, 3]]], np.float32)
    found = evaluate(scores, None)
    assert found.metrics == {}
    assert not found.has_truth
    assert found.matching.matching.tolist() == [[0, 1]]
    assert found.matching.margin.tolist() == [4.0]


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([[0, 1]], "truth has shape 1 x 2; expected 2 x 2"),
        ([[0, 1], [0, 2]], "truth of group 1, image 1 is 2"),
        ([[0, 1], [1, 1]], r"truth of group 1, \[1, 1\], uses a caption twice"),
        ([[0, 1], [1, -1]], "1 of 2 pairs"),
        ([[0.0, 1.0], [0.0, 1.0]], "float64; expected integers"),
        ([[0, 1], [-2, 1]], "image 0 is -2"),
    ],
)
def test_a_truth_that_does_not_fit_is_refused(truth, message):
    with pytest.raises(InputError, match=message):
        evaluate(np.zeros((2, 2, 2)), truth)


def by_definition(block: np.ndarray, truth: np.ndarray) -> dict[str, int]:
    """Section 2 and Appendix A, comparison by comparison."""
    images, texts = block.shape
    pairs = [(i, int(t)) for i, t in enumerate(truth) if t >= 0]
    rows = [all(block[i, t] > block[i, u] for u in range(texts) if u != t) for i, t in pairs]
    columns = [all(block[i, t] > block[j, t] for j in range(images) if j != i) for i, t in pairs]
    expected = {}
    if images <= texts:
        expected["text_score"] = int(all(rows))
    if images >= texts:
        expected["image_score"] = int(all(columns))
    expected["group_score"] = int(all(expected.values()))
    expected["individual_match"] = sum(rows) if images <= texts else sum(columns)
    return expected


@st.composite
def groups_with_truth(draw, elements):
    shape = draw(st.sampled_from(SHAPES))
    scores = draw(hnp.arrays(np.float64, shape, elements=elements))
    images, texts = shape
    side = min(shape)
    truth = np.full(images, -1)
    chosen = draw(st.permutations(range(images)))[:side]
    truth[chosen] = draw(st.permutations(range(texts)))[:side]
    return scores, truth


@settings(max_examples=200, deadline=None)
@given(groups_with_truth(st.one_of(st.integers(-2, 2).map(float), ANY)))
def test_agrees_with_the_definitions(drawn):
    scores, truth = drawn
    found = {n: r.count for n, r in evaluate(scores[None], truth[None]).rates().items()}
    matched = found.pop("group_match")
    assert found == by_definition(scores, truth)
    matching = match_groups(scores[None])
    assert matched == int(matching.unique[0] and (matching.matching[0] == truth).all())


@settings(max_examples=200, deadline=None)
@given(groups_with_truth(st.one_of(ANY, NEAR)))
def test_group_match_is_never_below_group_score(drawn):
    scores, truth = drawn
    rates = evaluate(scores[None], truth[None]).rates()
    assert rates["group_match"].count >= rates["group_score"].count
    if 1 in scores.shape:
        assert rates["group_match"].count == rates["group_score"].count


@settings(max_examples=100, deadline=None)
@given(groups_with_truth(st.integers(-2, 2).map(float)), st.randoms(use_true_random=False))
def test_the_order_of_images_and_captions_does_not_matter(drawn, random):
    scores, truth = drawn
    images, texts = scores.shape
    rows, columns = random.sample(range(images), images), random.sample(range(texts), texts)
    place = {old: new for new, old in enumerate(columns)} | {-1: -1}
    moved = np.array([place[int(t)] for t in truth[rows]])
    before = evaluate(scores[None], truth[None]).rates()
    assert evaluate(scores[rows][:, columns][None], moved[None]).rates() == before


def test_by_tag():
    scores = np.array([[[2, 1], [1, 2]], [[1, 2], [2, 1]], [[2, 1], [1, 2]]], np.float32)
    found = by_tag(evaluate(scores, diagonal(scores)), [("a",), ("a", "b"), ()])
    assert list(found) == ["a", "b"]
    assert found["a"]["group_match"] == Rate(1, 2, 0.5)
    assert found["a"]["individual_match"] == Rate(2, 4, 0.5)
    assert found["b"]["group_score"] == Rate(0, 1, 1 / 6)
    with pytest.raises(InputError, match="1 lists of tags for 3 groups"):
        by_tag(evaluate(scores, None), [("a",)])


# Global


def test_global_metrics():
    scores = np.array([[5, 4, 0], [6, 3, 0], [0, 0, 1]], np.float32)
    found = evaluate_global(scores, [0, 1, 2])
    # the best assignment is 0-1, 1-0, 2-2 (11); images 0 and 1 both prefer caption 0
    assert found.rates["global_match"] == Rate(1, 3, 1 / 3)
    assert found.rates["row_argmax"] == Rate(2, 3, 1 / 3)
    assert found.right is not None
    assert found.right.tolist() == [False, False, True]
    assert evaluate_global(scores, [1, 0, 2]).rates["global_match"].count == 3
    assert evaluate_global(scores, None).rates == {}


def test_global_ties_win_nothing():
    found = evaluate_global(np.ones((4, 5), np.float32), np.arange(4))
    assert [rate.count for rate in found.rates.values()] == [0, 0]
    assert [rate.chance for rate in found.rates.values()] == [0.2, 0.2]


def test_global_with_more_images_than_captions():
    scores = np.array([[9, 0], [0, 0.5], [1, 8]], np.float32)
    found = evaluate_global(scores, [0, -1, 1])
    assert found.rates["global_match"] == Rate(2, 2, 1 / 3)
    assert found.rates["row_argmax"] == Rate(2, 2, 1 / 2)


# Chance, intervals, gains


@pytest.mark.parametrize(
    ("shape", "group", "match", "text", "individual"),
    [
        ((1, 2), 1 / 2, 1 / 2, 1 / 2, 1 / 2),
        ((1, 4), 1 / 4, 1 / 4, 1 / 4, 1 / 4),
        ((2, 2), 1 / 6, 1 / 2, 1 / 4, 1 / 2),
        ((3, 3), 1 / 60, 1 / 6, 1 / 27, 1 / 3),
        ((4, 4), 1 / 840, 1 / 24, 1 / 256, 1 / 4),
        ((2, 3), 1 / 9, 1 / 6, 1 / 9, 1 / 3),
        ((3, 5), 1 / 125, 1 / 60, 1 / 125, 1 / 5),
    ],
)
def test_chance_levels(shape, group, match, text, individual):
    assert chance.group_score(*shape) == pytest.approx(group, rel=1e-15)
    assert chance.group_match(*shape) == pytest.approx(match, rel=1e-15)
    assert chance.text_score(*shape) == pytest.approx(text, rel=1e-15)
    assert chance.individual_match(*shape) == pytest.approx(individual, rel=1e-15)
    turned = shape[::-1]
    assert chance.group_score(*turned) == chance.group_score(*shape)
    assert chance.group_match(*turned) == chance.group_match(*shape)
    assert chance.image_score(*turned) == chance.text_score(*shape)


@pytest.mark.parametrize(("count", "of"), [(c, n) for c in (0, 1, 7, 30) for n in (30, 400)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_wilson_interval_agrees_with_scipy(count, of, confidence):
    expected = binomtest(count, of).proportion_ci(confidence, method="wilson")
    found = wilson_interval(count, of, confidence)
    assert found == pytest.approx((expected.low, expected.high), rel=1e-12, abs=1e-15)
    low, high = Rate(count, of, 0.5).interval(confidence)
    assert 0 <= low <= 100 * count / of <= high <= 100


@pytest.mark.parametrize(("count", "of"), [(-1, 10), (11, 10), (0, 0)])
def test_there_is_no_interval_of_an_impossible_count(count, of):
    with pytest.raises(ValueError, match="no interval"):
        wilson_interval(count, of)


# As the paper prints them (Tables 1 to 3 and the tables of App. B): before, after, points gained,
# relative gain and error reduction in percent.
PRINTED = [
    (60.00, 65.44, "5.4", "9.1", "13.6"),
    (67.00, 72.50, "5.5", "8.2", "16.7"),
    (69.50, 72.75, "3.3", "4.7", "10.7"),
    (72.59, 80.19, "7.6", "10.5", "27.7"),
    (81.48, 89.44, "8.0", "9.8", "43.0"),
    (77.67, 85.75, "8.1", "10.4", "36.2"),
    (88.00, 94.25, "6.3", "7.1", "52.1"),
    (91.33, 96.08, "4.8", "5.2", "54.8"),
    (61.75, 63.38, "1.6", "2.6", "4.3"),
    (76.30, 81.67, "5.4", "7.0", "22.7"),
    (80.00, 85.17, "5.2", "6.5", "25.9"),
    (44.38, 46.78, "2.4", "5.4", "4.3"),
    (39.63, 44.54, "4.9", "12.4", "8.1"),
    (88.00, 92.00, "4.0", "4.5", "33.3"),
    (70.48, 76.23, "5.8", "8.2", "19.5"),
    (71.47, 77.36, "5.9", "8.2", "20.6"),
    (60.41, 66.12, "5.7", "9.5", "14.4"),
    (83.67, 88.95, "5.3", "6.3", "32.3"),
    (30.58, 56.80, "26.2", "85.7", "37.8"),  # the paper prints 37.7, but 26.22 / 69.42 is 37.77
    (30.88, 49.94, "19.1", "61.7", "27.6"),
    (40.78, 95.87, "55.1", "135.1", "93.0"),
    (78.64, 99.03, "20.4", "25.9", "95.5"),
    (55.88, 82.84, "27.0", "48.2", "61.1"),
    (47.06, 66.67, "19.6", "41.7", "37.0"),
    (67.00, 71.50, "4.5", "6.7", "13.6"),
    (67.00, 71.88, "4.9", "7.3", "14.8"),
    (81.48, 85.19, "3.7", "4.6", "20.0"),
    (81.48, 87.04, "5.6", "6.8", "30.0"),
    (88.00, 93.58, "5.6", "6.3", "46.5"),
]


@pytest.mark.parametrize(("before", "after", "points", "gain", "reduction"), PRINTED)
def test_gains_are_those_of_the_papers_tables(before, after, points, gain, reduction):
    def printed(value: float) -> str:
        # ten digits remove the binary noise of 72.75 - 69.5, so that 3.25 rounds to 3.3
        return str(Decimal(f"{value:.10f}").quantize(Decimal("0.1"), ROUND_HALF_UP))

    assert printed(after - before) == points
    assert printed(relative_gain(before, after)) == gain
    assert printed(error_reduction(before, after)) == reduction


def test_gains_at_the_ends():
    assert relative_gain(0, 0) == 0
    assert relative_gain(0, 10) == math.inf
    assert error_reduction(100, 100) == 0
    assert error_reduction(100, 90) == -math.inf


# Coverage


def test_coverage_and_precision_of_groups():
    margins = [4, 2, 2, 1]
    scores = np.array([[[m, 0], [0, 0]] for m in margins] + [[[1, 1], [1, 1]]], np.float32)
    right = np.array([True, False, True, True, False])
    points = group_coverage(match_groups(scores), right, [5.0, 4.0, 2.0, 0.0])
    assert [(p.selected, p.of, p.right) for p in points] == [
        (0, 5, 0),
        (1, 5, 1),
        (3, 5, 2),
        (4, 5, 3),
    ]
    assert [p.precision_percent for p in points] == [None, 100, pytest.approx(200 / 3), 75]
    assert points[2].coverage_percent == 60
    assert taus_for_shares(match_groups(scores), (0.2, 0.6, 0.8, 1.0)) == [4.0, 2.0, 1.0, 0.0]


def test_coverage_of_a_global_matching():
    found = evaluate_global(np.diag([4.0, 3.0, 2.0, 1.0]), [0, 1, 3, 2])
    points = global_coverage(found.matching, found.right, [1.0, 0.5, 0.0])
    assert [(p.selected, p.of, p.right) for p in points] == [(0, 4, 0), (2, 4, 2), (4, 4, 2)]
    unknown = global_coverage(found.matching, None, [0.0])
    assert unknown[0].right is None
    assert unknown[0].precision_percent is None
