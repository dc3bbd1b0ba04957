"""Run folders as they are read by reports: seeds of one experiment together, nothing recomputed.

A path may be a run (one seed), the folder of an experiment (`seed_0`, `seed_1`, ...), or a folder
of experiments.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax import run_pictures
from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.runlog import RunFolder

_DEPTH = 3  # how far below a given folder runs are looked for


@dataclass(frozen=True, eq=False)
class SeedRun:
    """One run folder. `rows` is metrics.jsonl: row t is the model after iteration t."""

    path: Path
    identity: dict[str, Any] = field(repr=False)
    environment: dict[str, Any] = field(repr=False)
    rows: list[dict[str, Any]] = field(repr=False)

    @property
    def seed(self) -> int:
        return self.identity["seed"]

    @property
    def config(self) -> dict[str, Any]:
        return self.identity["config"]

    @property
    def is_global(self) -> bool:
        return self.config["matching"] == "global"

    @property
    def last(self) -> int:
        """The last iteration that was finished."""
        return self.rows[-1]["iteration"]

    @property
    def finished(self) -> bool:
        return self.last == self.config["iterations"]

    @property
    def has_truth(self) -> bool:
        return bool(self.rows[0]["metrics"])

    @property
    def main_metric(self) -> str:
        """What Test-Time Matching is judged by: GroupMatch, or the accuracy of the assignment."""
        return "global_match" if self.is_global else "group_match"

    @property
    def shapes(self) -> dict[str, int]:
        """Groups of each shape, "2x2": 400, in the order of the blocks."""
        return self.identity["dataset"]["shapes"]

    def percent(self, metric: str, iteration: int = -1) -> float | None:
        value = self.rows[iteration]["metrics"].get(metric)
        return None if value is None else value["percent"]

    def scores(self, iteration: int) -> tuple[np.ndarray, ...]:
        """[group, image, text] of every block."""
        return tuple(arrays["scores"] for arrays in self._blocks(iteration))

    @cached_property
    def truth(self) -> tuple[np.ndarray, ...] | None:
        """[group, image] of every block; None if nobody knows."""
        blocks = list(self._blocks(0))
        if not all("truth" in arrays for arrays in blocks):
            return None
        return tuple(arrays["truth"] for arrays in blocks)

    def _blocks(self, iteration: int) -> Iterator[dict[str, np.ndarray]]:
        for shape in self.shapes:
            path = self.path / "scores" / f"{iteration:03d}_{shape}.npz"
            try:
                with np.load(path, allow_pickle=False) as file:
                    yield dict(file)
            except FileNotFoundError as error:
                raise InputError(f"{path} is not there; the run folder is not whole") from error


@dataclass(frozen=True, eq=False)
class Experiment:
    """Runs that differ in the seed only, in the order of their seeds."""

    name: str
    folder: Path
    runs: tuple[SeedRun, ...]
    info: dict[str, Any] = field(default_factory=dict, repr=False)
    """experiment.json: which experiment of the paper this is, where somebody has said so."""
    note: str = ""
    """Why the command that made the runs did not hold them against the paper's, if it said so."""

    @property
    def first(self) -> SeedRun:
        return self.runs[0]

    @property
    def config(self) -> dict[str, Any]:
        return self.first.config

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def has_truth(self) -> bool:
        return self.first.has_truth

    @property
    def is_the_papers(self) -> bool:
        """Data and model are what experiment.json names; a small stand-in only plays their part."""
        return bool(self.info) and not self.info.get("small") and not self.note

    @property
    def dataset(self) -> str:
        name = self.info.get("dataset") if self.is_the_papers else None
        return name or self.first.identity["dataset"]["name"]

    @property
    def model(self) -> str:
        name = self.info.get("model") if self.is_the_papers else None
        return name or self.first.identity["model"]["source"]

    @property
    def shape(self) -> str:
        """ "2x2"; several shapes with commas. Of a global matching, that of the whole."""
        return ", ".join(self.first.shapes)

    @cached_property
    def pictures(self) -> run_pictures.RunPictures | None:
        return run_pictures.find(self.first.path)


def is_run(path: Path) -> bool:
    return (path / "config.json").is_file() and (path / "metrics.jsonl").is_file()


def read_run(path: Path) -> SeedRun:
    """One seed; a run that is still going shows what it has."""
    if not is_run(path):
        raise InputError(
            f"{path} is not a run folder: no config.json and metrics.jsonl; give a folder that "
            "run_ttm or an experiment has written"
        )
    rows = RunFolder(path).metrics()
    if not rows:
        raise InputError(f"{path}: metrics.jsonl is empty; the run has not finished its first step")
    identity = read_json(path / "config.json")
    if not isinstance(identity, dict) or not {"config", "seed", "dataset"} <= identity.keys():
        raise InputError(f"{path}/config.json is not that of a run: no config, seed and dataset")
    environment = path / "environment.json"
    return SeedRun(path, identity, read_json(environment) if environment.exists() else {}, rows)


def read_experiments(paths: Sequence[Path]) -> list[Experiment]:
    """All experiments in these folders, each once, in the order in which they were given."""
    found: dict[str, list[SeedRun]] = {}
    seen = set()
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist; give a run folder")
        runs = list(_runs_below(path, _DEPTH))
        if not runs:
            raise InputError(f"{path} has no run in it: no folder with config.json, metrics.jsonl")
        for folder in runs:
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            run = read_run(folder)
            found.setdefault(_group_key(run), []).append(run)
    experiments = [_experiment(runs) for runs in found.values()]
    return _distinct_names(experiments)


def read_one(path: Path) -> SeedRun:
    """The run at `path`; of an experiment with several seeds one has to be named."""
    if is_run(path) or not path.is_dir():
        return read_run(path)
    runs = list(_runs_below(path, 1))
    if len(runs) == 1:
        return read_run(runs[0])
    if runs:
        raise InputError(f"{path} holds several runs; give one: {', '.join(map(str, runs[:8]))}")
    return read_run(path)


def _runs_below(path: Path, depth: int) -> Iterator[Path]:
    if is_run(path):
        yield path
    elif depth and path.is_dir():
        for child in sorted(path.iterdir(), key=_natural):
            if child.is_dir() and not child.name.startswith("."):
                yield from _runs_below(child, depth - 1)


def _natural(path: Path) -> list[Any]:
    """seed_10 after seed_9."""
    parts = re.split(r"(\d+)", path.name)
    return [(part.isdigit(), int(part) if part.isdigit() else part) for part in parts]


def _group_key(run: SeedRun) -> str:
    same = {key: value for key, value in run.identity.items() if key != "seed"}
    return f"{run.path.resolve().parent} {same}"


def _experiment(runs: Iterable[SeedRun]) -> Experiment:
    ordered = tuple(sorted(runs, key=lambda run: run.seed))
    first = ordered[0].path
    is_seed = re.fullmatch(r"seed_\d+", first.name) is not None or len(ordered) > 1
    folder = first.parent if is_seed else first
    info = _optional(folder / "experiment.json")
    comparison = _optional(folder / "summary.json").get("comparison") or {}
    return Experiment(folder.resolve().name, folder, ordered, info, comparison.get("note", ""))


def _optional(path: Path) -> dict[str, Any]:
    content = read_json(path) if path.exists() else {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object")
    return content


def _distinct_names(experiments: list[Experiment]) -> list[Experiment]:
    """Two folders of one name are told apart by the folder above them."""
    names = [experiment.name for experiment in experiments]
    result = []
    for number, experiment in enumerate(experiments):
        if names.count(experiment.name) == 1:
            result.append(experiment)
            continue
        longer = f"{experiment.folder.resolve().parent.name}/{experiment.name}"
        taken = {other.name for other in result}
        name = longer if longer not in taken else f"{longer} ({number + 1})"
        result.append(replace(experiment, name=name))
    return result
