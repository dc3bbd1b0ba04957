"""What the paper's figures are drawn from: runs, experiments that only score, API models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.data.score_files.read import read_score_file
from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.matching.checks import as_truth
from ttm_jax.matching.match import groups_right, match_groups
from ttm_jax.report.run_data import Experiment, is_run, read_experiments
from ttm_jax.report.tables.gpt_rows import api_row, is_api_run
from ttm_jax.report.tables.verdict import Comparison

_DEPTH = 3  # how far below a given folder runs are looked for
_ONLY_SCORED = ("ablation_metrics", "ablation_coverage")


@dataclass(frozen=True, eq=False)
class Measured:
    """An untrained model that an experiment has scored on a benchmark."""

    folder: Path
    experiment: str
    stands_for: str
    """The paper's benchmark that was asked for; with small models another one takes its place."""
    dataset: str
    model: str
    small: bool
    metrics: dict[str, Any] = field(repr=False)

    def decisions(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Margin, whether the matching is unique, and whether it is right, for every group."""
        path = self.folder / "scores.npz"
        if not path.is_file():
            return None
        read = read_score_file(path)
        if read.truth is None:
            raise InputError(f"{path} has no truth; this figure needs it")
        scores, truth = read.scores, as_truth(read.truth, read.scores.shape)
        found = match_groups(scores)
        return found.margin, found.unique, groups_right(found.matching, found.unique, truth)


@dataclass(frozen=True, eq=False)
class Sources:
    experiments: tuple[Experiment, ...]
    measured: tuple[Measured, ...] = ()
    api_rows: tuple[Comparison, ...] = ()


def find_sources(paths: Sequence[Path]) -> Sources:
    """Everything in these folders and up to three levels below that a figure can be drawn from."""
    with_runs: list[Path] = []
    measured: list[Measured] = []
    rows: list[Comparison] = []
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist; give a run folder")
        before = len(measured) + len(rows)
        if any(is_run(folder) for folder in _folders(path, _DEPTH)):
            with_runs.append(path)
        for folder in _folders(path, _DEPTH):
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            measured += _measured(folder)
            rows += [api_row(folder)] if is_api_run(folder) else []
        if path not in with_runs and len(measured) + len(rows) == before:
            raise InputError(
                f"{path} has nothing to draw: no finished run or scores of experiments"
            )
    experiments = read_experiments(with_runs) if with_runs else []
    return Sources(tuple(experiments), tuple(measured), tuple(rows))


def _folders(path: Path, depth: int) -> Iterator[Path]:
    """A folder and those below it; runs are not looked into."""
    if not path.is_dir():
        return
    yield path
    if depth and not is_run(path):
        for child in sorted(path.iterdir()):
            if child.is_dir() and not child.name.startswith("."):
                yield from _folders(child, depth - 1)


def _measured(folder: Path) -> list[Measured]:
    """One entry if the folder belongs to an experiment that only scores and has finished."""
    said, summary = folder / "experiment.json", folder / "summary.json"
    if not (said.is_file() and summary.is_file()):
        return []
    info, found = read_json(said), read_json(summary)
    if not isinstance(info, dict) or info.get("experiment") not in _ONLY_SCORED:
        return []
    if not isinstance(found, dict) or not {"raw", "dataset", "model"} <= found.keys():
        raise InputError(f"{summary} lacks raw, dataset or model; rerun {info['experiment']}")
    return [
        Measured(
            folder=folder,
            experiment=info["experiment"],
            stands_for=info["dataset"],
            dataset=found["dataset"],
            model=found["model"],
            small=bool(info.get("small")),
            metrics=found["raw"],
        )
    ]
