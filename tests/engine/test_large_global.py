"""Global runs without a matrix of all scores: the same selections, folders, resumes and reports."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError
from ttm_jax.files import read_json, read_lines
from ttm_jax.matching.large import pair_scores as pair_scores_module
from ttm_jax.matching.large.pair_scores import STORED, PairScores
from ttm_jax.report.decisions import decisions
from ttm_jax.report.page.page import write_page
from ttm_jax.report.run_data import read_experiments, read_run
from ttm_jax.runs.console import Console

GLOBAL = replace(CONFIG, matching="global", tau_unit="fraction", tau_1=0.5)


@pytest.fixture
def few(monkeypatch):
    """More than one pair is too many for a matrix."""
    monkeypatch.setattr(pair_scores_module, "MOST_PAIRS", 1)


def run(folder=None, config=GLOBAL, dataset=None, **more):
    devices = jax.devices()[:1]
    return run_ttm(
        tiny_model(), dataset or tiny_dataset(), config, folder, seed=3, devices=devices, **more
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same run with and without a matrix."""
    folder = tmp_path_factory.mktemp("both")
    dense = run(folder / "dense")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_scores_module, "MOST_PAIRS", 1)
        large = run(folder / "large")
    return dense, large


def test_selects_the_same_pairs_in_every_iteration(both):
    dense, large = both
    for with_matrix, without in zip(dense.history, large.history, strict=True):
        np.testing.assert_array_equal(with_matrix.selected, without.selected)
        chosen = without.selected
        np.testing.assert_array_equal(with_matrix.matching[chosen], without.matching[chosen])
        np.testing.assert_allclose(with_matrix.margins, without.margins, rtol=0, atol=1e-4)
    jax.tree.map(np.testing.assert_array_equal, dense.model.params, large.model.params)


def test_metrics_and_table_are_the_same(both):
    dense, large = both
    assert dense.metrics == large.metrics
    assert dense.raw_metrics == large.raw_metrics
    assert "group_score" in large.metrics  # within groups, from the embeddings
    for row, other in zip(dense.table(), large.table(), strict=True):
        numbers = {key for key, value in row.items() if isinstance(value, float)}
        assert {**row, **dict.fromkeys(numbers)} == {**other, **dict.fromkeys(numbers)}
        for key in numbers:
            assert row[key] == pytest.approx(other[key], abs=1e-4)


def test_nothing_in_the_folder_grows_with_the_number_of_pairs(both):
    _, large = both
    images = len(large.matchings)
    for path in (large.run_dir / "scores").iterdir():
        with np.load(path) as file:
            assert set(file) == {*STORED, "truth"}
            assert all(file[name].size == images for name in file)
    assert isinstance(large.scores, PairScores)
    rows = list(read_lines(large.run_dir / "metrics.jsonl"))
    assert all(row["assignment"]["proved"] for row in rows)
    assert all(row["assignment"]["gap"] == 0 for row in rows)
    assert all(row["captions"] > 1 for row in rows)


def test_later_iterations_begin_where_the_last_one_ended(both, few):
    """Their first round has the pairs of the last matching, so it is never far off."""
    _, large = both
    before = large.history[0].scores
    assert before.start.image_price.any()
    assert before.start.matching is before.matching


def test_a_run_resumes_bit_for_bit(both, few, tmp_path):
    _, large = both
    folder = tmp_path / "again"
    shutil.copytree(large.run_dir, folder)
    shutil.rmtree(folder / "checkpoints" / "3")
    (folder / "summary.json").unlink()
    again = run(folder)
    for name in ("ledger.jsonl", "matchings.jsonl", "config.json"):
        assert (folder / name).read_bytes() == (large.run_dir / name).read_bytes(), name
    for path in (large.run_dir / "scores").iterdir():
        with np.load(path) as a, np.load(folder / "scores" / path.name) as b:
            for name in a:
                np.testing.assert_array_equal(a[name], b[name])
    assert again.metrics == large.metrics


def test_reports_read_what_is_there(both, tmp_path):
    _, large = both
    with_matrix, without = (read_run(result.run_dir) for result in both)
    for iteration in range(4):
        one, other = decisions(with_matrix, iteration), decisions(without, iteration)
        np.testing.assert_array_equal(one.right, other.right)
        np.testing.assert_array_equal(one.unique, other.unique)
        np.testing.assert_allclose(one.confidence, other.confidence, rtol=0, atol=1e-4)
    page = tmp_path / "report.html"
    write_page(read_experiments([large.run_dir]), page)
    assert "global match" in page.read_text().lower()


def test_final_matchings_name_the_runner_up(both):
    dense, _ = both
    lines = [list(read_lines(result.run_dir / "matchings.jsonl")) for result in both]
    assert [line["runner_up"] for line in lines[0]] == [line["runner_up"] for line in lines[1]]
    scores = dense.scores.copy()
    rows = np.arange(len(scores))
    scores[rows, dense.matchings] = -np.inf
    assert [line["runner_up"] for line in lines[0]] == scores.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("matching", lambda x: x[::-1], "checksum"),
        ("matching", lambda x: np.full_like(x, x[0]), "does not give each image a caption"),
        ("first", lambda x: x + 1000, "first names captions that do not exist"),
        ("unique", lambda x: x + 2, "something other than 0 and 1"),
        ("log_total", lambda x: x * np.nan, "expected a finite float32"),
        ("text_price", lambda x: x[:-1], "has shape"),
    ],
)
def test_changed_files_are_noticed(both, few, tmp_path, name, change, message):
    folder = tmp_path / "run"
    shutil.copytree(both[1].run_dir, folder)
    path = folder / "scores" / "003_18x18.npz"
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, name: change(arrays[name])})
    with pytest.raises(InputError, match=message):
        read_run(folder).scores(3)
    (folder / "summary.json").unlink()
    with pytest.raises(InputError):
        run(folder)


def test_a_limit_is_said_in_the_log(few, tmp_path, monkeypatch):
    monkeypatch.setattr("ttm_jax.matching.large.certified._CANDIDATES", 1)
    config = replace(GLOBAL, iterations=1, match_seconds=1e-9)
    result = run(tmp_path / "run", config, tiny_dataset(40))
    first = next(iter(read_lines(tmp_path / "run" / "metrics.jsonl")))["assignment"]
    assert first["rounds"] == 1
    assert first["proved"] == (first["violations"] == 0)
    assert read_run(result.run_dir).rows[0]["assignment"] == first
    assert read_json(tmp_path / "run" / "config.json")["config"]["match_seconds"] == 1e-9


def test_progress_names_rounds_and_gap(few, capsys, monkeypatch):
    monkeypatch.setattr("ttm_jax.runs.console._INTERVAL", -1.0)
    with Console("plain") as console:
        run(config=replace(GLOBAL, iterations=1), console=console)
    assert "matching all pairs, round 1" in capsys.readouterr().err


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match="match_seconds is 0"):
        replace(GLOBAL, match_seconds=0.0)
    with pytest.raises(InputError, match="match_gap is 1"):
        replace(GLOBAL, match_gap=1.0)


def test_more_captions_than_images(few, tmp_path):
    dataset = tiny_dataset(6, 1, 3)
    result = run(tmp_path / "run", dataset=dataset)
    assert result.scores.shape == (1, 6, 18)
    assert len(set(result.matchings.tolist())) == 6
    write_page(read_experiments([tmp_path / "run"]), tmp_path / "report.html")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["final"] == result.metrics
