"""Charts of any numbers that the readers let through."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.report.page.svg_chart import (
    Series,
    histogram,
    line_chart,
    nice_ticks,
    whole_ticks,
)
from ttm_jax.runs.read.fields import LARGEST

NOT_NUMBERS = re.compile(r"\bnan\b|\binf\b")
NUMBERS = st.floats(-LARGEST, LARGEST) | st.sampled_from([0.0, 1e-320, -5e-324, LARGEST, -LARGEST])


@given(NUMBERS, NUMBERS, st.integers(2, 8))
def test_ticks_are_finite_few_and_cover_the_range(a, b, wanted):
    low, high = sorted((a, b))
    ticks = nice_ticks(low, high, wanted)
    assert 2 <= len(ticks) <= 3 * wanted
    assert all(math.isfinite(tick) for tick in ticks)
    assert sorted(ticks) == ticks
    slack = (ticks[-1] - ticks[0]) * 1e-6
    assert ticks[0] - slack <= low <= high <= ticks[-1] + slack


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=50), st.booleans())
def test_lines(points, whole):
    bars = tuple((y, y) for _, y in points)
    level = Series("b", ((0, points[0][1]),), 1, "level")
    series = [Series("a", tuple(points), 0, bars=bars), level]
    text = line_chart("title", "x", "y", series, whole_x=whole)
    assert not NOT_NUMBERS.search(text)


@given(st.lists(NUMBERS, min_size=2, max_size=20, unique=True))
def test_bars(edges):
    edges = sorted(edges)
    bars = [(low, high, 1, 2) for low, high in pairwise(edges)]
    text = histogram("title", ("x", "groups"), bars, ("right", "wrong"), 3)
    assert not NOT_NUMBERS.search(text)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 4, [0, 1, 2, 3, 4]),
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (1, 10, [1, 4, 6, 8, 10]),
        (0, 3.9, [0, 1, 2, 3, 4]),  # steps of the fourth iteration
        (0, 7, [0, 2, 4, 7]),  # not 6: it is too close to the end
        (3, 3, [3, 4]),
        (0, 100, [0, 20, 40, 60, 80, 100]),
    ],
)
def test_iterations_are_whole_with_both_ends(low, high, ticks):
    assert whole_ticks(low, high) == ticks


@given(NUMBERS, NUMBERS)
def test_whole_ticks_of_anything(a, b):
    low, high = sorted((a, b))
    ticks = whole_ticks(low, high)
    assert 2 <= len(ticks) <= 10
    assert all(tick == math.floor(tick) for tick in ticks)
    assert ticks == sorted(ticks)


def test_both_ends_of_an_axis_have_a_tick():
    """A line ends inside the axes, and the axes end at numbers."""
    text = line_chart("title", "x", "y", [Series("a", ((0.3, 1.0), (8.2, 2.0)), 0)])
    labels = re.findall(r'text-anchor="middle">([\d.]+)<', text)
    assert (labels[0], labels[-1]) == ("0", "10")


def test_a_single_line_needs_no_legend():
    one, two = Series("a", ((0, 1), (1, 2)), 0), Series("b", ((0, 2), (1, 1)), 1)
    assert "legend" not in line_chart("title", "x", "y", [one])
    assert line_chart("title", "x", "y", [one, two]).count("<li>") == 2


def test_hovering_says_what_it_is_told():
    text = line_chart("t", "x", "y", [Series("a", ((0, 1),), 0, said=("margin 0.50",))])
    assert "<title>a: margin 0.50</title>" in text
