"""Results for people: a table of pairs, a short repr, a DataFrame where pandas is installed."""

import sys

import jax
import numpy as np
import pytest
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.engine.result_table import pair_table
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError

PIXELS = np.zeros((4, 4, 3), np.uint8)


@pytest.fixture(scope="module")
def result():
    return run_ttm(tiny_model(), tiny_dataset(), CONFIG, devices=jax.devices()[:1])


def test_rows_are_the_matchings(result):
    rows = result.table()
    assert len(rows) == 18
    matched = result.matchings.reshape(-1)
    truth = result.dataset.blocks[0].truth.reshape(-1)
    for row, caption, true in zip(rows, matched, truth, strict=True):
        assert row["right"] == (row["unique"] and caption == true)
        assert (row["caption"] == row["truth"]) == (caption == true)
    right = sum(row["right"] for row in rows)
    assert sum(row["changed"] for row in rows) == int(
        (result.matchings != result.history[0].matching).sum()
    )
    assert right // 2 == result.metrics["group_match"]["count"]


def test_confidence_and_runner_up():
    group = Group("g", ("a.jpg", PIXELS), ("x", "y", "z"), (0, 1))
    dataset = GroupedDataset.from_groups([group])
    scores = np.log(np.array([[[6.0, 3.0, 1.0], [5.0, 4.0, 1.0]]]))
    before = np.array([[1, 0]], np.int32)
    rows = pair_table(dataset, scores, np.array([[0, 1]], np.int32), before, TTMConfig())
    assert [row["caption"] for row in rows] == ["x", "y"]
    assert [row["confidence"] for row in rows] == pytest.approx([0.6, 0.4])
    assert [row["runner_up"] for row in rows] == ["y", "x"]
    assert [row["before"] for row in rows] == ["y", "x"]
    assert [row["image"] for row in rows] == ["a.jpg", "image 1"]
    assert all(row["changed"] and row["right"] for row in rows)


def test_an_image_without_a_caption():
    group = Group("g", (PIXELS, PIXELS + 1), ("x",), (0, -1))
    dataset = GroupedDataset.from_groups([group])
    found = np.array([[0, -1]], np.int32)
    rows = pair_table(dataset, np.array([[[2.0], [1.0]]]), found, found, TTMConfig())
    assert [row["caption"] for row in rows] == ["x", None]
    assert [row["confidence"] for row in rows] == [1.0, None]
    assert [row["runner_up"] for row in rows] == [None, "x"]


def test_short_repr(result):
    old, new = result.raw_metrics["group_match"], result.metrics["group_match"]
    assert repr(result) == (
        f"TTMResult(GroupMatch {old['percent']:.2f} -> {new['percent']:.2f}, 3 iterations, seed 0)"
    )
    assert repr(result.dataset) == (
        "GroupedDataset('arrays': 9 groups (9 of 2x2), 18 images, 18 captions, truth known)"
    )


def test_groups_can_be_iterated():
    groups = [Group("a", (PIXELS,), ("x", "y"), (1,), ("tag",)), Group("b", (PIXELS,), ("z",))]
    assert list(GroupedDataset.from_groups(groups)) == groups


def test_without_pandas_the_table_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pip install pandas; or use table\(\)"):
        result.to_pandas()


def test_with_pandas(result):
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 18
