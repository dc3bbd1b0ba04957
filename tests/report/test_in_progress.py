"""A run that is still going is reported on as far as it is complete, with a note."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from made_runs import CONFIG, fate_scores, pictured_dataset, write_fates, write_run

from ttm_jax.config import TTMConfig
from ttm_jax.errors import InputError
from ttm_jax.report.compare import compare_experiments
from ttm_jax.report.decisions import decisions, unit_names
from ttm_jax.report.page.page import page
from ttm_jax.report.run_data import SeedRun, read_experiments, read_run

ITERATIONS = 40
NOT_YET = ("has no run in it", "has not finished its first step", "does not exist")


@pytest.fixture
def going(tmp_path) -> Path:
    """A run that has not written its summary: one that is between two iterations."""
    path = write_run(tmp_path / "seed_0", pictured_dataset(), fate_scores(), CONFIG)
    (path / "summary.json").unlink()
    (path / "matchings.jsonl").unlink()
    return path


def cut(path: Path, lines: int, letters: int = 0) -> None:
    """Leave some lines, and the beginning of the next one."""
    parts = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(parts[:lines]) + (parts[lines][:letters] if letters else b""))


@pytest.mark.parametrize("letters", [0, 1, 20, -1])
def test_last_line_of_the_metrics(going, letters):
    cut(going / "metrics.jsonl", 2, letters)
    run = read_run(going)
    assert (run.last, run.finished) == (1, False)
    assert len(run.notes) == (letters != 0)
    text = page(read_experiments([going]), models={})
    assert "seed 0 is at 1 of 2" in text
    assert ("metrics.jsonl line 3 is incomplete and was left out" in text) == (letters != 0)


@pytest.mark.parametrize(("lines", "letters"), [(5, 0), (5, 10), (7, 0), (9, 30)])
def test_ledger_behind_the_metrics(going, lines, letters):
    cut(going / "ledger.jsonl", lines, letters)
    run = read_run(going)
    assert run.last == 2
    (note,) = run.notes
    assert note.endswith("is not complete for iteration 2: the run is still writing it")
    assert note in page(read_experiments([going]), models={}).replace("&#39;", "'")
    (experiment,) = read_experiments([going])
    assert compare_experiments(experiment, experiment)[0].notes == (note,)


def test_ledger_that_is_about_to_be_written(going):
    cut(going / "metrics.jsonl", 2)
    (going / "ledger.jsonl").unlink()
    (note,) = read_run(going).notes
    assert note.endswith("is not complete for iteration 1: the run is still writing it")
    assert "to-right" in page(read_experiments([going]), models={})


def test_ledger_that_lacks_more_than_the_last_iteration(going):
    cut(going / "ledger.jsonl", 3)
    with pytest.raises(
        InputError, match=r"5 lines of iteration 1 expected; the file is missing or cut"
    ):
        page(read_experiments([going]), models={})


def test_ledger_ahead_of_the_metrics(going):
    """Written after metrics.jsonl was read."""
    cut(going / "metrics.jsonl", 2)
    assert len(read_run(going).ledger.iterations) == 1
    page(read_experiments([going]), models={})


def test_only_the_first_scores(going):
    cut(going / "metrics.jsonl", 1)
    (going / "ledger.jsonl").unlink()
    run = read_run(going)
    assert run.last == 0
    assert unit_names(run)[0] == "to-right"  # from groups.json
    page(read_experiments([going]), models={})


def test_nothing_yet(going, tmp_path):
    cut(going / "metrics.jsonl", 0, 10)
    with pytest.raises(InputError, match="empty; the run has not finished its first step"):
        read_experiments([going])
    write_fates(tmp_path / "other", (0,))
    (experiment,) = read_experiments([tmp_path])
    assert experiment.name == "other"
    assert "left out: " in page([experiment], models={})


def test_a_finished_run_that_is_resumed(going):
    """Its summary is still there when the lines are rewound."""
    final = read_run(going).rows[-1]["metrics"]
    (going / "summary.json").write_text(json.dumps({"seed": 0, "final": final}))
    cut(going / "metrics.jsonl", 2)
    (note,) = read_run(going).notes
    assert "says that the run has finished, but metrics.jsonl ends at iteration 1" in note


def read_if_begun(folder: Path) -> SeedRun | None:
    try:
        return read_experiments([folder])[0].first
    except InputError as error:
        if not any(words in str(error) for words in NOT_YET):
            raise
        return None


def test_read_while_it_is_written(tmp_path):
    """As often as possible, from the first file to the last; the writer is the engine's own."""
    rng = np.random.default_rng(0)
    history = [rng.normal(size=(5, 2, 2)) for _ in range(ITERATIONS + 1)]
    config = TTMConfig(tau_1=1.0, iterations=ITERATIONS)
    path = tmp_path / "runs" / "seed_0"
    writer = threading.Thread(
        target=write_run, args=(path, pictured_dataset(), history, config), daemon=True
    )
    writer.start()
    seen = set()
    while True:
        done = not writer.is_alive()
        run = read_if_begun(tmp_path / "runs")
        if run is None:
            assert not done
            continue
        found = decisions(run, run.last)
        assert found.right.sum() == run.rows[-1]["metrics"]["group_match"]["count"]
        assert len(run.ledger.iterations) in (run.last, run.last - 1)
        seen.add(run.last)
        if done:
            break
    assert run.last == ITERATIONS
    assert run.notes == ()
    assert len(seen) > 1
