"""The charts of an experiment, from its run folders."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from ttm_jax.data.paper import PaperResult
from ttm_jax.report.decisions import Decisions, decisions
from ttm_jax.report.margins import calibration, common_edges, margin_bins, threshold_points
from ttm_jax.report.run_data import Experiment, SeedRun
from ttm_jax.report.svg_chart import Point, Series, histogram, line_chart
from ttm_jax.schedules import learning_rates

TITLES = {
    "group_score": "GroupScore",
    "group_match": "GroupMatch",
    "global_match": "global assignment",
    "text_score": "text score",
    "image_score": "image score",
    "individual_match": "individual match",
    "row_argmax": "best caption of each image",
}
_MOST_STEPS = 300
Row = dict[str, Any]


def charts(experiment: Experiment, paper: PaperResult | None) -> list[str]:
    """Everything over iterations, then everything about margins; what is unknown is left out."""
    return [
        text
        for text in (
            scores_chart(experiment, paper),
            selection_chart(experiment),
            tau_chart(experiment),
            loss_chart(experiment),
            rate_chart(experiment),
            *margin_charts(experiment.first),
        )
        if text
    ]


def comparison_chart(experiments: Sequence[Experiment]) -> str:
    """Several experiments in one chart: what each is judged by, as the mean over its seeds."""
    lines = []
    for colour, experiment in enumerate(experiments):
        values = _over_seeds(experiment, _metric(experiment.first.main_metric))
        lines.append(Series(experiment.name, _mean(values), colour % 6))
    return line_chart(
        "GroupMatch (or global assignment) of the adapted model",
        "iteration", "percent", lines, whole_x=True,
    )  # fmt: skip


def scores_chart(experiment: Experiment, paper: PaperResult | None) -> str:
    main = experiment.first.main_metric
    names = (
        [main, "group_score"] if "group_score" in experiment.first.rows[0]["metrics"] else [main]
    )
    if not experiment.has_truth:
        return ""
    lines = []
    for colour, name in enumerate(names):
        lines += _mean_and_seeds(experiment, TITLES[name], _metric(name), colour)
    chance = experiment.first.rows[0]["metrics"][main]["chance"]
    lines.append(Series(f"chance of {TITLES[main]}", ((0, chance),), 5, "level"))
    if paper is not None and paper.ttm is not None:
        lines.append(Series("TTM in the paper", ((0, paper.ttm),), 3, "level"))
    return line_chart("Scores", "iteration", "percent", lines, whole_x=True)


def selection_chart(experiment: Experiment) -> str:
    lines = _mean_and_seeds(experiment, "selected", _selected, 0)
    lines += _mean_and_seeds(experiment, "right among the selected", _precision, 1)
    title = "Pseudo-labels: how many, how many right"
    return line_chart(title, "iteration", "percent", lines, y_range=(0, 100), whole_x=True)


def tau_chart(experiment: Experiment) -> str:
    lines = _mean_and_seeds(experiment, "tau", lambda row: row.get("tau"), 0)
    return line_chart("Threshold tau", "iteration", "tau", lines, whole_x=True)


def loss_chart(experiment: Experiment) -> str:
    """Every step; x is the iteration with its steps as fractions."""
    lines = [
        Series(f"seed {run.seed}", _steps(run, lambda row, steps: row["losses"]), number % 6)
        for number, run in enumerate(experiment.runs)
    ]
    return line_chart("Training loss of every step", "iteration", "loss", lines)


def rate_chart(experiment: Experiment) -> str:
    c = experiment.config

    def rates(row: Row, steps: int) -> list[float]:
        at = row["iteration"] - 1
        return learning_rates(c["lr"], at, steps, c["lr_decay"], c["min_lr_factor"]).tolist()

    points = _steps(experiment.first, rates)
    lines = [Series(f"seed {experiment.first.seed}", points, 0)]
    return line_chart("Learning rate of every step", "iteration", "learning rate", lines)


def margin_charts(run: SeedRun) -> list[str]:
    """Before and after, of one seed: thresholds (the paper's Figure 2), histograms, calibration."""
    before, after = decisions(run, 0), decisions(run, run.last)
    kind = "similarity" if run.is_global else "margin"
    edges = common_edges(before.confidence, after.confidence)
    names = ("right", "wrong") if before.right is not None else None
    bins = [margin_bins(d.confidence, d.right, edges) for d in (before, after)]
    top = max(b.count for part in bins for b in part)
    histograms = [
        histogram(
            f"{kind.capitalize()}s {when}",
            kind,
            [(b.low, b.high, b.right, b.wrong) for b in part],
            names,
            top,
        )
        for when, part in zip(
            ("of the model as it came", "of the adapted model"), bins, strict=True
        )
    ]
    return [
        _threshold_chart(before, after, kind),
        *histograms,
        _calibration_chart(before, after, kind),
    ]


def _threshold_chart(before: Decisions, after: Decisions, kind: str) -> str:
    lines = []
    for offset, (when, found) in enumerate((("before", before), ("after", after))):
        points = threshold_points(found.confidence, found.unique, found.right)
        share = tuple((p.tau, p.coverage) for p in points)
        right = tuple((p.tau, p.precision) for p in points if p.precision is not None)
        lines.append(Series(f"selected, {when}", share, 2 * offset))
        lines.append(Series(f"right among them, {when}", right, 2 * offset + 1))
    title = "What a threshold selects, and how much of it is right"
    return line_chart(title, f"threshold on the {kind}", "percent", lines, y_range=(0, 100))


def _calibration_chart(before: Decisions, after: Decisions, kind: str) -> str:
    lines = []
    for colour, (when, found) in enumerate((("before", before), ("after", after))):
        if found.right is None:
            return ""
        bins = calibration(found.confidence, found.right)
        points = tuple((b.margin, b.right) for b in bins)
        lines.append(Series(when, points, colour, bars=tuple((b.low, b.high) for b in bins)))
    title = f"Is a larger {kind} more often right?"
    return line_chart(title, f"mean {kind} of the bin", "percent right", lines, y_range=(0, 100))


Value = Callable[[Row], float | None]


def _metric(name: str) -> Value:
    def value(row: Row) -> float | None:
        found = row["metrics"].get(name)
        return None if found is None else found["percent"]

    return value


def _selected(row: Row) -> float | None:
    return 100 * row["selected"] / row["units"] if "units" in row else None


def _precision(row: Row) -> float | None:
    return None if row.get("precision") is None else 100 * row["precision"]


def _over_seeds(experiment: Experiment, value: Value) -> list[tuple[Point, ...]]:
    every = []
    for run in experiment.runs:
        pairs = ((row["iteration"], value(row)) for row in run.rows)
        every.append(tuple((x, y) for x, y in pairs if y is not None))
    return every


def _mean(seeds: list[tuple[Point, ...]]) -> tuple[Point, ...]:
    """Over the seeds that have reached an iteration."""
    at: dict[float, list[float]] = {}
    for points in seeds:
        for x, y in points:
            at.setdefault(x, []).append(y)
    return tuple((x, fmean(values)) for x, values in sorted(at.items()))


def _mean_and_seeds(experiment: Experiment, name: str, value: Value, colour: int) -> list[Series]:
    seeds = _over_seeds(experiment, value)
    lines = [Series(name, _mean(seeds), colour)]
    if len(seeds) > 1:
        lines += [Series(name, points, colour, "thin") for points in seeds]
    return lines


def _steps(run: SeedRun, values: Callable[[Row, int], list[float]]) -> tuple[Point, ...]:
    points: list[Point] = []
    for row in run.rows[1:]:
        steps = len(row["losses"])
        xs = row["iteration"] - 1 + np.arange(steps) / max(steps, 1)
        points += zip(xs.tolist(), values(row, steps), strict=True)
    every = max(1, -(-len(points) // _MOST_STEPS))
    return tuple(points[::every])
