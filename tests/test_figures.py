"""The paper's figures: drawn from the runs there are, and nothing else."""

from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest
from made_runs import CONFIG, fate_scores, pictured_dataset, write_fates, write_run

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.report.paper_figures import drawings, write_figures
from ttm_jax.report.run_data import read_experiments

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Everything that the four figures ask for."""
    root = tmp_path_factory.mktemp("runs")
    write_fates(root / "plain")
    write_fates(root / "constant", (0,), config=replace(CONFIG, schedule="constant"))
    write_fates(root / "ascending", (0,), config=replace(CONFIG, schedule="ascending"))
    write_fates(root / "oracle", (0,), config=replace(CONFIG, oracle=True))
    write_fates(root / "earlier", (0,), config=replace(CONFIG, tau_1=0.5))
    write_run(root / "global" / "seed_0", pictured_dataset(), [np.eye(10)[None]] * 2, GLOBAL)
    rng = np.random.default_rng(0)
    groups = [Group(str(n), (np.zeros((4, 4, 3), np.uint8),), ("a", "b"), (0,)) for n in range(30)]
    single = GroupedDataset.from_groups(groups, "single")
    history = [rng.normal(size=(30, 1, 2)) for _ in range(3)]
    write_run(root / "single" / "seed_0", single, history)
    return root


def test_all_four(folder, tmp_path):
    written, missing = write_figures(
        read_experiments([folder]), tmp_path, formats=("png", "pdf", "svg")
    )
    assert missing == []
    names = ["figure_1_main", "figure_2_thresholds", "figure_3_one_by_k", "figure_4_analyses"]
    assert [p.name for p in written] == [f"{n}.{k}" for n in names for k in ("png", "pdf", "svg")]
    for path in written:
        head = path.read_bytes()[:5]
        assert head.startswith(
            {".png": b"\x89PNG", ".pdf": b"%PDF-", ".svg": b"<?xml"}[path.suffix]
        )
    picture = matplotlib.image.imread(tmp_path / "figure_4_analyses.png")
    assert picture.shape[1] == 3 * 860  # three panels
    assert picture[..., :3].std() > 0.05  # not an empty sheet


def test_same_runs_same_file(folder, tmp_path):
    experiments = read_experiments([folder])
    for name in "ab":
        write_figures(experiments, tmp_path / name, formats=("svg", "pdf"))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_numbers_stand_in_the_figure(folder, tmp_path):
    write_figures(read_experiments([folder]), tmp_path, formats=("svg",))
    analyses = (tmp_path / "figure_4_analyses.svg").read_text()
    for text in ("GroupScore", "oracle", "baseline", "(60 %)", "(60 %)"):
        assert text in analyses
    schedules = (tmp_path / "figure_2_thresholds.svg").read_text()
    for text in ("ascend", "constant", "decay", "threshold on the margin"):
        assert text in schedules


def test_what_is_missing_is_said(folder, tmp_path):
    written, missing = write_figures(read_experiments([folder / "single"]), tmp_path)
    assert [path.stem for path in written] == ["figure_2_thresholds", "figure_3_one_by_k"]
    assert "figure_1_main: no runs on groups of k x k" in missing
    assert any("oracle" in text for text in missing)
    assert len(missing) == 6


def test_ablations_are_not_bars_of_the_main_figure(folder):
    main = drawings(read_experiments([folder / "oracle"]), {})[0]
    assert main.panels == ()


def test_without_truth(tmp_path):
    write_run(tmp_path, pictured_dataset(truth=False), fate_scores())
    with pytest.raises(InputError, match="none of the runs knows the truth"):
        write_figures(read_experiments([tmp_path]), tmp_path / "out")
