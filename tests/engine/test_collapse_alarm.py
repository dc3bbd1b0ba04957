"""When a run says that it gets worse, and which iteration it names."""

import numpy as np
import pytest

from ttm_jax.engine.collapse_alarm import (
    advice,
    alarm,
    best_iteration,
    caption_variety,
    worth_keeping,
)


def row(iteration, value=None, captions=None):
    found = {"iteration": iteration, "estimate": None}
    if value is not None:
        interval = {"value": value, "low": value - 0.05, "high": value + 0.05}
        found["estimate"] = {"accuracy": interval}
    if captions is not None:
        found["captions"] = captions
    return found


def test_a_clear_fall_of_the_estimate():
    rows = [row(0, 0.6), row(1, 0.8), row(2, 0.75), row(3, 0.6)]
    assert alarm(rows[:3]) is None  # the intervals overlap
    found = alarm(rows)
    assert found["back_to"] == 1
    assert "from 80 % (iteration 1) to 60 %" in found["why"]


def test_few_captions():
    rows = [row(0, captions=100.0), row(1, captions=90.0), row(2, captions=70.0)]
    assert alarm(rows) is None
    found = alarm([*rows, row(3, captions=49.0)])
    assert found["back_to"] == 1  # the last that prefers about as many as the first
    assert "in effect 49, and 100 at the start" in found["why"]


@pytest.mark.parametrize("rows", [[row(0, 0.9)], [row(0), row(1)], [row(0, 0.9), row(1)]])
def test_nothing_to_compare(rows):
    assert alarm(rows) is None


def test_whatever_an_alarm_names_is_kept():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = []
        kept = frozenset()
        for iteration in range(8):
            rows.append(row(iteration, rng.uniform(0.1, 0.9), rng.uniform(1, 100)))
            found = alarm(rows)
            # The checkpoint must have been spared when the iteration before was saved.
            assert found is None or found["back_to"] in kept
            kept = worth_keeping(rows)


def test_the_best_iteration():
    assert best_iteration([row(0), row(1)]) is None
    assert best_iteration([row(0, 0.5), row(1, 0.7), row(2, 0.7)]) == 1


def test_what_people_are_told(tmp_path):
    told = {"iteration": 3, "alarm": {"back_to": 1, "why": "it fell"}}
    assert advice(told, tmp_path).endswith(f"ttm export {tmp_path} --iteration 1 FOLDER")
    assert "a run of 1 iterations" in advice(told, None)
    told["alarm"]["back_to"] = 0
    assert "the unadapted model is better" in advice(told, None)


def test_variety_is_the_number_of_captions_that_are_equally_preferred():
    index = np.arange(8, dtype=np.int32).reshape(4, 2)
    first = np.tile(np.array([[[1.0, 0.0]]]), (4, 1, 1))
    assert caption_variety((first,), [index]) == pytest.approx(4)
    same = np.zeros((4, 2), np.int32)
    assert caption_variety((first,), [same]) == pytest.approx(1)
