"""Run folders as reports see them: seeds of one experiment together, nothing recomputed.

A path may be a run (one seed), the folder of an experiment (`seed_0`, `seed_1`, ...), or a folder
of experiments. Every file is read by `ttm_jax.runs.read`, which checks it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.matching.metric_names import headline
from ttm_jax.plain_text import one_line
from ttm_jax.runs.pictures import RunPictures, find_pictures
from ttm_jax.runs.read.agreement import check_pictures, check_scores, check_truth, other_data
from ttm_jax.runs.read.fields import Place
from ttm_jax.runs.read.identity import CONFIG, read_environment, read_identity
from ttm_jax.runs.read.json_files import read_optional_object
from ttm_jax.runs.read.ledger import Ledger, read_ledger
from ttm_jax.runs.read.metrics import NAME, read_metrics
from ttm_jax.runs.read.scores import read_scores

_EMPTY = "empty; the run has not finished its first step"
_DEPTH = 3  # how far below a given folder runs are looked for


@dataclass(frozen=True, eq=False)
class SeedRun:
    """One run folder. `rows` is metrics.jsonl: row t is the model after iteration t."""

    path: Path
    identity: dict[str, Any] = field(repr=False)
    environment: dict[str, Any] = field(repr=False)
    rows: list[dict[str, Any]] = field(repr=False)
    complete: bool = True
    """The run has written its summary: what is missing is lost, and not about to be written."""
    read_notes: tuple[str, ...] = ()
    decided: dict[int, Any] = field(default_factory=dict, repr=False)
    """What `decisions` has computed already."""

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
        return headline("global" if self.is_global else "group")

    @property
    def shapes(self) -> dict[str, int]:
        """Groups of each shape, "2x2": 400, in the order of the blocks."""
        return self.identity["dataset"]["shapes"]

    def percent(self, metric: str, iteration: int = -1) -> float | None:
        value = self.rows[iteration]["metrics"].get(metric)
        return None if value is None else value["percent"]

    def scores(self, iteration: int) -> tuple[Any, ...]:
        """[group, image, text] of every block; `PairScores` of too many pairs for a matrix."""
        blocks = list(read_scores(self.path, iteration, self.identity))
        check_scores(blocks, self.rows[iteration].get("scores"), self.truth)
        return tuple(block.scores for block in blocks)

    @cached_property
    def truth(self) -> tuple[np.ndarray, ...] | None:
        """[group, image] of every block; None if nobody knows."""
        blocks = list(read_scores(self.path, 0, self.identity))
        check_truth(blocks, self.has_truth)
        known = [block.truth for block in blocks if block.truth is not None]
        return tuple(known) if self.has_truth else None

    @cached_property
    def ledger(self) -> Ledger:
        """What was selected in each iteration."""
        return read_ledger(self.path, self.identity, self.rows, finished=self.complete)

    @cached_property
    def pictures(self) -> RunPictures | None:
        """What the groups look like; None if it was not kept."""
        found = find_pictures(self.path)
        if found is None:
            return None
        if found.folder != self.path and other_data(found, self.identity):
            return None  # the folder around the run belongs to another dataset
        check_pictures(found, self.identity, self.ledger, self.truth)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read because the run is still going."""
        return self.read_notes + self.ledger.notes


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
    reading_notes: tuple[str, ...] = ()

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

    @property
    def pictures(self) -> RunPictures | None:
        return self.first.pictures

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a report should know about its runs, one sentence each."""
        return self.reading_notes + tuple(note for run in self.runs for note in run.notes)


def is_run(path: Path) -> bool:
    return (path / CONFIG).is_file() and (path / NAME).is_file()


def read_run(path: Path) -> SeedRun:
    """One seed; of a run that is still going, what is complete."""
    run = _read_begun(path)
    if run is None:
        raise Place(path / NAME).error(_EMPTY)
    return run


def _read_begun(path: Path) -> SeedRun | None:
    """None if not even the first scores are there yet."""
    if not is_run(path):
        raise Place(path).error(
            f"not a run folder: no {CONFIG} and {NAME}; give a folder that run_ttm or an "
            "experiment has written"
        )
    identity = read_identity(path)
    measured = read_metrics(path, identity)
    if not measured.rows:
        return None
    environment = read_environment(path)
    return SeedRun(path, identity, environment, measured.rows, measured.finished, measured.notes)


def read_experiments(paths: Sequence[Path]) -> list[Experiment]:
    """All experiments in these folders, each once, in the order in which they were given.

    A run without results yet is left out with a note, unless there is no other.
    """
    found: dict[str, list[SeedRun]] = {}
    seen: set[Path] = set()
    empty: list[Path] = []
    for path in paths:
        if not path.exists():
            raise Place(path).error("does not exist; give a run folder")
        runs = list(_runs_below(path, _DEPTH))
        if not runs:
            raise Place(path).error(f"has no run in it: no folder with {CONFIG}, {NAME}")
        for folder in runs:
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            run = _read_begun(folder)
            if run is None:
                empty.append(folder)
            else:
                found.setdefault(_group_key(run), []).append(run)
    if empty and not found:
        raise Place(empty[0] / NAME).error(_EMPTY)
    experiments = [_experiment(runs) for runs in found.values()]
    if empty:
        notes = tuple(f"left out: {folder / NAME}: {_EMPTY}" for folder in empty)
        experiments[0] = replace(experiments[0], reading_notes=notes)
    return _distinct_names(experiments)


def read_one(path: Path) -> SeedRun:
    """The run at `path`; of an experiment with several seeds one has to be named."""
    if is_run(path) or not path.is_dir():
        return read_run(path)
    runs = list(_runs_below(path, 2))  # RUN/seed_0, or what `ttm adapt` writes: OUT/run/seed_0
    if len(runs) == 1:
        return read_run(runs[0])
    if runs:
        named = ", ".join(map(str, runs[:8]))
        raise Place(path).error(f"holds several runs; give one: {named}")
    return read_run(path)


def _runs_below(path: Path, depth: int) -> Iterator[Path]:
    if is_run(path):
        yield path
    elif depth and path.is_dir():
        try:
            children = sorted(path.iterdir(), key=_natural)
        except OSError as error:
            raise Place(path).error(f"cannot be read: {error.strerror}") from None
        for child in children:
            if child.is_dir() and not child.name.startswith("."):
                yield from _runs_below(child, depth - 1)


def _natural(path: Path) -> list[Any]:
    """seed_10 after seed_9."""
    parts = re.split(r"([0-9]+)", path.name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _group_key(run: SeedRun) -> str:
    same = {key: value for key, value in run.identity.items() if key != "seed"}
    return f"{run.path.resolve().parent} {same}"


def _experiment(runs: Iterable[SeedRun]) -> Experiment:
    ordered = tuple(sorted(runs, key=lambda run: run.seed))
    first = ordered[0]
    for run in ordered[1:]:
        if run.rows[0]["metrics"].keys() != first.rows[0]["metrics"].keys():
            raise Place(run.path / NAME, 1).error(f"metrics are not those of {first.path / NAME}")
    is_seed = re.fullmatch(r"seed_\d+", first.path.name) is not None or len(ordered) > 1
    folder = first.path.parent if is_seed else first.path
    info, note = _read_info(folder)
    return Experiment(one_line(folder.resolve().name), folder, ordered, info, note)


def _read_info(folder: Path) -> tuple[dict[str, Any], str]:
    """experiment.json, and the note of the comparison in summary.json."""
    info = read_optional_object(folder / "experiment.json")
    for key in ("dataset", "model"):
        if info.known(key):
            info.string(key)
    if info.known("small"):
        info.boolean("small")
    summary = read_optional_object(folder / "summary.json")
    comparison = summary.nested("comparison") if summary.known("comparison") else None
    note = comparison.string("note") if comparison is not None and comparison.known("note") else ""
    return info.values, note


def _distinct_names(experiments: list[Experiment]) -> list[Experiment]:
    """Two folders of one name are told apart by the folder above them."""
    names = [experiment.name for experiment in experiments]
    result = []
    for number, experiment in enumerate(experiments):
        if names.count(experiment.name) == 1:
            result.append(experiment)
            continue
        longer = one_line(f"{experiment.folder.resolve().parent.name}/{experiment.name}")
        taken = {other.name for other in result}
        name = longer if longer not in taken else f"{longer} ({number + 1})"
        result.append(replace(experiment, name=name))
    return result
