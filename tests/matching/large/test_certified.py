"""The certified assignment is that of the dense solver: totals, settled pairs, bounds."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType

from ttm_jax.errors import InputError
from ttm_jax.matching import match as matching_module
from ttm_jax.matching.large import pair_scores as pair_scores_module
from ttm_jax.matching.large import search as search_module
from ttm_jax.matching.large import tiles as tiles_module
from ttm_jax.matching.large.certified import assign_embeddings
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.pair_scores import PairScores, pair_scores
from ttm_jax.matching.large.result import Certified, Limits, Round
from ttm_jax.matching.large.transport import Transport
from ttm_jax.matching.match import match_global
from ttm_jax.matching.metrics import evaluate_global

TILE = (8, 8)  # several tiles, of few compiled shapes
KINDS = ("tied", "clustered", "few", "random")


@st.composite
def embeddings(draw, kinds=KINDS) -> Embeddings:
    """Images and captions in any numbers, with and without ties. All scores but the random ones are
    whole numbers, which float32 multiplies and adds without rounding."""
    images, texts = draw(st.integers(5, 24)), draw(st.integers(5, 24))
    if draw(st.booleans()):
        texts = images
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(kinds))
    if kind == "tied":
        rows = rng.integers(-1, 2, (images + texts, 4))
    elif kind == "clustered":
        centres = rng.integers(-20, 21, (4, 4))
        rows = centres[rng.integers(0, 4, images + texts)] + rng.integers(
            -1, 2, (images + texts, 4)
        )
    elif kind == "few":  # equal images and equal captions
        rows = rng.integers(-9, 10, (5, 4))[rng.integers(0, 5, images + texts)]
    else:
        rows = rng.normal(size=(images + texts, 4))
    rows = rows.astype(np.float32)
    return Embeddings(rows[:images], rows[images:], scale=draw(st.sampled_from([1.0, 4.0])))


def solve(given_: Embeddings, **more) -> Certified:
    return assign_embeddings(given_.checked(), **{"tile": TILE, "candidates": 2, **more})


def total(similarity: np.ndarray) -> float:
    return float(similarity[np.isfinite(similarity)].astype(np.float64).sum())


def check_equal(found: Certified, scores: np.ndarray, exact: bool = True) -> None:
    """Total, settled pairs and their captions are those of the dense solver on the same scores."""
    dense = match_global(scores)
    assert found.proved
    if exact:
        assert total(found.similarity) == total(dense.similarity)
    else:  # both choose on a grid that is finer than this
        assert total(found.similarity) == pytest.approx(total(dense.similarity), rel=1e-9, abs=1e-9)
    np.testing.assert_array_equal(found.unique, dense.unique)
    np.testing.assert_array_equal(found.matching[found.unique], dense.matching[dense.unique])
    rows = np.flatnonzero(found.matching >= 0)
    assert len(rows) == min(scores.shape)
    assert len(set(found.matching[rows].tolist())) == len(rows)
    np.testing.assert_array_equal(found.similarity[rows], scores[rows, found.matching[rows]])
    assert not found.unique[found.matching < 0].any()


@settings(max_examples=60)
@given(embeddings(kinds=KINDS[:3]))
def test_equals_the_dense_solver_to_the_last_bit(given_):
    check_equal(solve(given_), given_.images @ given_.texts.T * np.float32(given_.scale))


@settings(max_examples=20)
@given(embeddings(kinds=("random",)))
def test_equals_the_dense_solver_on_any_numbers(given_):
    scores = given_.dense()  # the same programs, other tiles
    np.testing.assert_allclose(scores, given_.within(*grid(given_))[0], rtol=1e-5, atol=1e-5)
    found = solve(given_, tile=None)
    check_equal(found, scores, exact=False)


def grid(given_: Embeddings) -> tuple[np.ndarray, np.ndarray]:
    images, texts = given_.shape
    return np.arange(images)[None], np.arange(texts)[None]


@settings(max_examples=20)
@given(embeddings(kinds=KINDS[:3]))
def test_parts_of_several_columns_hide_nothing(given_):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "_PARTS", 6)
        patch.setattr(search_module, "_MOST_TIGHT", 30)  # arcs are reduced while they are found
        check_equal(solve(given_), given_.images @ given_.texts.T * np.float32(given_.scale))


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (2, 2)])
def test_smallest_shapes(shape):
    rng = np.random.default_rng(sum(shape))
    rows = [rng.integers(-9, 10, (n, 4)).astype(np.float32) for n in shape]
    check_equal(solve(Embeddings(*rows)), rows[0] @ rows[1].T)


@settings(max_examples=20)
@given(embeddings(kinds=KINDS[:3]))
def test_prices_prove_the_optimum(given_):
    """No pair of all is better than its prices, and no chosen one is worse: a certificate."""
    found = solve(given_)
    scores = given_.images @ given_.texts.T * np.float32(given_.scale)
    prices = found.start.image_price[:, None] + found.start.text_price[None]
    assert (scores <= prices).all()
    rows = np.flatnonzero(found.matching >= 0)
    columns = found.matching[rows]
    np.testing.assert_array_equal(scores[rows, columns], prices[rows, columns])


@settings(max_examples=30)
@given(embeddings(), st.sampled_from([Limits(seconds=-1.0), Limits(gap=0.02), Limits(gap=0.5)]))
def test_a_limit_returns_an_assignment_within_its_bound(given_, limits):
    dense = match_global(given_.dense())
    found = solve(given_, limits=limits, candidates=1)
    last: Round = found.rounds[-1]
    assert last.gap <= limits.gap or limits.gap == 0
    assert (last.gap == 0) >= found.proved
    assert len(set(found.matching[found.matching >= 0].tolist())) == min(given_.shape)
    missing = total(dense.similarity) - total(found.similarity)
    size = np.abs(found.similarity[np.isfinite(found.similarity)]).sum()
    rounding = 1e-6 * np.abs(given_.dense()).sum()
    assert -rounding <= missing <= last.gap * size + rounding


def test_without_a_limit_bounds_fall_until_there_is_a_proof():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(48, 4)).astype(np.float32)
    rounds: list[Round] = []
    solve(Embeddings(rows[:24], rows[24:]), candidates=1, on_round=rounds.append)
    assert len(rounds) > 1  # it did not start with all that it needs
    gaps = [found.gap for found in rounds]
    assert gaps == sorted(gaps, reverse=True)
    assert [found.violations > 0 for found in rounds] == [True] * (len(rounds) - 1) + [False]
    assert [found.number for found in rounds] == list(range(1, len(rounds) + 1))


@settings(max_examples=20)
@given(embeddings())
def test_a_start_changes_no_settled_pair(given_):
    cold = solve(given_)
    warm = solve(given_, start=cold.start)
    assert len(warm.rounds) == 1  # its prices prove what they were made for
    np.testing.assert_array_equal(cold.unique, warm.unique)
    np.testing.assert_array_equal(cold.matching[cold.unique], warm.matching[warm.unique])
    moved = Embeddings(given_.images + np.float32(1.0), given_.texts, given_.scale)
    again, from_cold = solve(moved, start=cold.start), solve(moved)
    np.testing.assert_array_equal(again.unique, from_cold.unique)
    np.testing.assert_array_equal(again.matching[again.unique], from_cold.matching[again.unique])


@settings(max_examples=25)
@given(embeddings(), st.randoms(use_true_random=False))
def test_permuting_the_data_permutes_the_result_to_the_last_bit(given_, random):
    """No tie is broken by place. Benchmarks list the true pairs in the same order."""
    images, texts = given_.shape
    rows, columns = random.sample(range(images), images), random.sample(range(texts), texts)
    before = solve(given_)
    after = solve(Embeddings(given_.images[rows], given_.texts[columns], given_.scale))
    np.testing.assert_array_equal(after.unique, before.unique[rows])
    back = np.array([*columns, -1])[after.matching]
    np.testing.assert_array_equal(back[after.unique], before.matching[rows][after.unique])
    same = after.similarity[after.unique], before.similarity[rows][after.unique]
    np.testing.assert_array_equal(*same)
    np.testing.assert_array_equal(after.summary.log_total, before.summary.log_total[rows])


def test_a_model_that_knows_nothing_settles_nothing():
    same = np.ones((20, 4), np.float32)
    assert not solve(Embeddings(same, same)).unique.any()
    assert not solve(Embeddings(same, same[:12])).unique.any()


@settings(max_examples=20)
@given(embeddings(kinds=KINDS[:3]))
def test_the_best_captions_of_each_image(given_):
    scores = given_.images @ given_.texts.T * np.float32(given_.scale)
    s = solve(given_).summary
    rows = np.arange(len(scores))
    ordered = np.sort(scores, axis=1)[:, ::-1]
    np.testing.assert_array_equal(s.first_score, ordered[:, 0])
    np.testing.assert_array_equal(s.second_score, ordered[:, 1])
    np.testing.assert_array_equal(scores[rows, s.first], s.first_score)
    np.testing.assert_array_equal(scores[rows, s.second], s.second_score)
    assert (s.first != s.second).all()
    exact = np.log(np.exp(scores - ordered[:, :1], dtype=np.float64).sum(axis=1)) + ordered[:, 0]
    np.testing.assert_allclose(s.log_total, exact, rtol=1e-5, atol=1e-5)


def test_several_devices_give_the_same_result():
    rng = np.random.default_rng(0)
    rows = rng.integers(-20, 21, (48, 4)).astype(np.float32)
    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    found = solve(Embeddings(rows[:24], rows[24:], mesh=mesh))
    check_equal(found, rows[:24] @ rows[24:].T)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6))
def test_a_transport_costs_what_its_units_cost_one_by_one(seed, sources, targets):
    rng = np.random.default_rng(seed)
    supply, demand = rng.integers(1, 4, sources), rng.integers(1, 4, targets)
    rest = int(supply.sum() - demand.sum())
    demand[0] += max(rest, 0)
    supply[0] += max(-rest, 0)
    cost = rng.integers(-4, 5, (sources, targets)).astype(np.float64)
    found = Transport(supply, demand, rng.integers(-9, 9, targets).astype(np.float64))
    half = rng.random((sources, targets)) < 0.5
    half[np.repeat(np.arange(sources), supply), np.repeat(np.arange(targets), demand)] = True
    for part in (half, ~half):
        rows, columns = np.nonzero(part)
        found.add(rows, columns, cost[part], np.zeros(len(rows), np.float32))
        found.solve()
    units = np.repeat(np.repeat(cost, supply, axis=0), demand, axis=1)
    dense = match_global(-units)
    assert found.total == -dense.similarity.sum()
    assert (found.reduced >= 0).all()
    assert (found.reduced[found.flow > 0] == 0).all()
    assert (np.bincount(found.rows, found.flow, sources) == supply).all()
    assert (np.bincount(found.columns, found.flow, targets) == demand).all()


@settings(max_examples=20)
@given(embeddings(kinds=KINDS[:3]))
def test_metrics_are_those_of_the_matrix(given_):
    images, texts = given_.shape
    truth = np.full(images, -1)
    truth[: min(images, texts)] = np.arange(min(images, texts))
    expected = evaluate_global(given_.images @ given_.texts.T, truth)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_scores_module, "MOST_PAIRS", 1)
        found = evaluate_global(Embeddings(given_.images, given_.texts), truth)
    assert found.rates == expected.rates
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.right, expected.right)


def test_few_pairs_are_a_matrix_and_many_are_not(monkeypatch):
    rows = np.eye(6, dtype=np.float32)
    asked = []

    def count(given_, **more):
        asked.append(given_.shape)
        return pair_scores(given_, **more)

    monkeypatch.setattr(matching_module, "pair_scores", count)
    assert match_global(Embeddings(rows, rows[::-1])).matching.tolist() == [5, 4, 3, 2, 1, 0]
    assert not asked
    monkeypatch.setattr(pair_scores_module, "MOST_PAIRS", 35)
    assert match_global(Embeddings(rows, rows[::-1])).matching.tolist() == [5, 4, 3, 2, 1, 0]
    assert asked == [(6, 6)]


@settings(max_examples=15)
@given(embeddings())
def test_what_is_stored_comes_back(given_):
    before = pair_scores(given_)
    after = PairScores.from_arrays(before.arrays())
    assert after.shape == before.shape == (1, *given_.shape)
    for name, values in before.arrays().items():
        np.testing.assert_array_equal(after.arrays()[name], values)
    np.testing.assert_array_equal(after.similarity, before.similarity)
    np.testing.assert_array_equal(after.runner_up, before.runner_up)
    np.testing.assert_array_equal(after.summary.second_score, before.summary.second_score)


@pytest.mark.parametrize(
    ("images", "texts", "message"),
    [
        (np.ones((3, 4)), np.ones((3, 5)), "images have embeddings of 4 numbers"),
        (np.ones(3), np.ones((3, 5)), r"embeddings of images have shape \(3,\)"),
        (np.ones((3, 4)), np.ones((0, 4)), r"embeddings of texts have shape \(0, 4\)"),
        (np.full((3, 4), np.nan), np.ones((3, 4)), "embeddings of images contain NaN"),
        (np.array([["a"]]), np.ones((3, 1)), "are of type <U1"),
    ],
)
def test_embeddings_that_do_not_fit_are_refused(images, texts, message):
    with pytest.raises(InputError, match=message):
        match_global(Embeddings(images, texts))


def test_matching_a_matrix_does_not_load_jax():
    program = (
        "import sys, ttm_jax.matching.metrics as m; m.evaluate_global([[2.0, 1.0]], [0]); "
        "sys.exit('jax' in sys.modules)"
    )
    root = Path(matching_module.__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=root).returncode == 0
