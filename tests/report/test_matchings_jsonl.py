"""The result of a run in file names and captions."""

import numpy as np
from made_runs import mixed_dataset, write_mixed, write_run

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.report.matchings_jsonl import matching_lines
from ttm_jax.runs.folder import RunFolder

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.0, iterations=1)


def test_groups_of_several_shapes(tmp_path):
    run = RunFolder(write_mixed(tmp_path / "run"))
    lines = list(matching_lines(mixed_dataset(), run, "group", tmp_path))
    assert [line["id"] for line in lines][:4] == ["2x2-0", "2x2-1", "2x2-2", "1x3-0"]
    wide = lines[-1]  # three images, two captions
    assert wide["matching"].count(None) == 1
    assert wide["matched"][wide["matching"].index(None)] is None
    assert wide["truth"] == [1, None, 0]


def test_an_image_without_a_caption(tmp_path):
    """With more images than captions, a global matching leaves some images over."""
    images = tuple(np.full((4, 4, 3), value, np.uint8) for value in (0, 100, 200))
    group = Group("all", images, ("a", "b"), (0, 1, -1))
    dataset = GroupedDataset.from_groups([group])
    scores = np.array([[[0.9, 0.1], [0.2, 0.8], [0.3, 0.4]]])
    path = write_run(tmp_path / "run", dataset, [scores, scores], GLOBAL)
    lines = list(matching_lines(dataset, RunFolder(path), "global", tmp_path))
    assert [line["caption"] for line in lines] == [0, 1, None]
    assert [line["matched"] for line in lines] == ["a", "b", None]
    assert [line["before"] for line in lines] == [0, 1, None]
    assert [line["truth"] for line in lines] == [0, 1, None]
    assert lines[2]["similarity"] is None
