"""What the tables of the HTML page say, as plain text and numbers; the templates add the markup."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from ttm_jax.matching.metric_names import METRICS
from ttm_jax.report.agreement import agreement_of_seeds
from ttm_jax.report.decisions import decisions
from ttm_jax.report.page.headline import changed
from ttm_jax.report.page.names import folder_names, title_of
from ttm_jax.report.run_data import Experiment, SeedRun
from ttm_jax.report.tables.from_runs import (
    SummaryRow,
    mean_and_std,
    number,
    signed,
    summary_row,
)
from ttm_jax.report.tables.paper_numbers import units

_OVERVIEW = (
    "data and model", "changed", "chance", "raw", "SimpleMatch", "TTM", "gain", "error reduction",
    "paper: raw", "paper: SimpleMatch", "paper: TTM",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A text and, below it in small print, notes of one or more lines each.

    `key` is what the column is sorted by (None: last), `link` a place on the page.
    """

    text: str
    notes: tuple[tuple[str, ...], ...] = ()
    strong: bool = False
    key: float | str | None = None
    link: str = ""


Row = list[Cell]


@dataclass(frozen=True)
class Overview:
    """One row per experiment, in the order given; without any truth there are no scores."""

    headings: tuple[str, ...]
    rows: list[Row]
    with_paper: bool
    with_scores: bool


def overview(experiments: Sequence[Experiment], models: Mapping[str, str]) -> Overview:
    found = [summary_row(experiment, models) for experiment in experiments]
    with_paper = any(row is not None and row.paper for row in found)
    with_scores = any(row is not None for row in found)
    names = folder_names(experiments)
    rows = []
    for n, (experiment, row) in enumerate(zip(experiments, found, strict=True)):
        cells = [_name_cell(experiment, names[n], n), _changed_cell(experiment)]
        if with_scores:
            cells += [Cell("-")] * 6 if row is None else _score_cells(row, len(experiments) == 1)
        if with_paper:
            cells += [_beside(row, name) for name in ("raw", "simple_match", "ttm")]
        rows.append(cells)
    headings = _OVERVIEW if with_paper else _OVERVIEW[:8] if with_scores else _OVERVIEW[:2]
    return Overview(headings, rows, with_paper, with_scores)


def groups_text(experiment: Experiment) -> str:
    """ "60 groups of 2x2"."""
    if experiment.first.is_global:
        images, captions = next(iter(experiment.first.shapes)).split("x")
        return f"{images} images and {captions} captions without groups"
    return ", ".join(
        f"{count} group{'' if count == 1 else 's'} of {shape}"
        for shape, count in experiment.first.shapes.items()
    )


def _name_cell(experiment: Experiment, folder: str, number: int) -> Cell:
    seeds = f", {len(experiment.runs)} seeds" if len(experiment.runs) > 1 else ""
    notes: list[tuple[str, ...]] = [(f"{folder} · {groups_text(experiment)}{seeds}",)]
    if not all(run.finished for run in experiment.runs):
        notes.insert(0, ("not finished",))
    title = title_of(experiment)
    return Cell(title, tuple(notes), True, f"{title} {folder}".lower(), f"run-{number}")


def _changed_cell(experiment: Experiment) -> Cell:
    count = fmean(int(changed(run).sum()) for run in experiment.runs)
    share = 100 * count / units(experiment)
    return Cell(f"{share:.2f} %", key=share)


def _score_cells(row: SummaryRow, with_seeds: bool) -> Row:
    r = row.result
    chance = f"{r.chance:.2f}"
    if r.chance_raw is not None and abs(r.chance_raw - r.chance) > 0.005:
        chance = f"{r.chance_raw:.2f} / {chance}"
    seeds = tuple(
        f"seed {seed}: {value:.2f}" for seed, value in zip(r.seeds, r.ttm_values, strict=True)
    )
    return [
        Cell(chance, key=r.chance),
        Cell(number(r.raw), key=r.raw),
        Cell(number(r.simple_match), key=r.simple_match),
        Cell(mean_and_std(r.ttm_mean, r.ttm_std), (seeds,) if with_seeds and len(seeds) > 1 else (),
             strong=True, key=r.ttm_mean),
        Cell(signed(r.gain), (_relative(row),), key=r.gain),
        _reduction(row),
    ]  # fmt: skip


def _relative(row: SummaryRow) -> tuple[str, ...]:
    return (f"{row.relative_gain:+.2f} %",) if math.isfinite(row.relative_gain) else ()


def _reduction(row: SummaryRow) -> Cell:
    value = row.error_reduction
    return Cell(f"{value:.2f} %", key=value) if math.isfinite(value) else Cell("-")


def _beside(row: SummaryRow | None, name: str) -> Cell:
    """The paper's number and, below it, how far ours is from it."""
    value = None if row is None or row.paper is None else getattr(row.paper, name)
    if row is None or row.paper is None or value is None:
        return Cell("-")
    text = mean_and_std(value, row.paper.ttm_std if name == "ttm" else None)
    return Cell(text, ((signed(row.difference(name)),),), key=value)


@dataclass(frozen=True)
class IterationTable:
    """The numbers behind the curves of one seed."""

    seed: int
    headings: tuple[str, ...]
    rows: list[Row]


def iteration_tables(experiment: Experiment) -> list[IterationTable]:
    tables = []
    for run in experiment.runs:
        metrics = list(run.rows[0]["metrics"])
        names = (METRICS[name].label for name in metrics)
        texts = [_iteration_texts(row, metrics) for row in run.rows]
        headings = ["iteration", "tau", "selected", "precision", *names, "loss", "lr", "seconds"]
        if not run.has_truth:
            place = headings.index("precision")
            for part in (headings, *texts):
                del part[place]
        rows = [[Cell(text) for text in part] for part in texts]
        for heading, column in _without_labels(run).items():
            headings.append(heading)
            rows = [[*row, cell] for row, cell in zip(rows, column, strict=True)]
        tables.append(IterationTable(run.seed, tuple(headings), rows))
    return tables


def _without_labels(run: SeedRun) -> dict[str, list[Cell]]:
    """Columns that only runs with decoys have: a row's precision was estimated before it."""
    columns = {}
    estimates = [row.get("estimate") for row in run.rows]
    if any(estimates):
        before = [None, *(known and known["precision"] for known in estimates[:-1])]
        columns["precision, estimated"] = [_interval(known) for known in before]
        columns["right, estimated"] = [
            _interval(known and known["accuracy"]) for known in estimates
        ]
    gains = [row.get("grounded") for row in run.rows]
    if any(gains):
        columns["grounded gain"] = [
            Cell("-" if known is None else signed(100 * known["gain"])) for known in gains
        ]
    return columns


def _interval(known: dict[str, float] | None) -> Cell:
    if known is None:
        return Cell("-")
    interval = f"{100 * known['low']:.2f}–{100 * known['high']:.2f}"
    return Cell(f"{100 * known['value']:.2f}", ((interval,),))


AGREEMENT = ("seeds that agree", "groups", "agreement says", "right", "interval", "calibrated")


def agreement_rows(experiment: Experiment) -> list[Row]:
    """How many seeds chose the same, and what it is worth; nothing with one seed."""
    rows = []
    for found in agreement_of_seeds(experiment):
        texts = [f"{found.seeds} of {found.of}", str(found.units), f"{found.predicted:.2f} %"]
        if found.right is None:
            texts += ["-"] * 3
        else:
            low, high = found.right.interval()
            known = f"{found.right.percent:.2f} %", f"{low:.2f} to {high:.2f}"
            texts += [*known, "yes" if found.calibrated else "no"]
        rows.append([Cell(text) for text in texts])
    return rows


def _iteration_texts(row: dict[str, Any], metrics: list[str]) -> list[str]:
    trained = "units" in row
    precision = row.get("precision")
    return [
        str(row["iteration"]),
        f"{row['tau']:.2f}" if trained else "-",
        f"{row['selected']} / {row['units']}" if trained else "-",
        "-" if precision is None else f"{100 * precision:.2f}",
        *(number(row["metrics"][name]["percent"]) for name in metrics),
        "-" if row.get("loss") is None else f"{row['loss']:.2f}",
        f"{row['lr']:.2e}" if trained else "-",
        f"{row['seconds']:.2f}",
    ]


def tag_rows(experiment: Experiment) -> list[Row]:
    """GroupMatch before and after of the groups with each tag; nothing without tags or truth."""
    pictures = experiment.pictures
    if pictures is None or not experiment.has_truth or experiment.first.is_global:
        return []
    groups = pictures.groups
    tags = list(dict.fromkeys(tag for group in groups for tag in group.tags))
    if len(tags) < 2:
        return []
    before = _right(experiment.first, 0)
    after = [_right(run, run.last) for run in experiment.runs]
    rows = []
    for tag in tags:
        among = np.array([tag in group.tags for group in groups])
        old = 100 * float(before[among].mean())
        new = fmean(100 * float(part[among].mean()) for part in after)
        texts = (tag, str(int(among.sum())), number(old), number(new), signed(new - old))
        rows.append([Cell(text) for text in texts])
    return rows


def _right(run: SeedRun, iteration: int) -> np.ndarray:
    right = decisions(run, iteration).right
    assert right is not None  # has_truth
    return right
