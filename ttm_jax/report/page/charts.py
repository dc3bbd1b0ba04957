"""The charts of an experiment, from its run folders."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from markupsafe import Markup

from ttm_jax.data.paper import PaperResult
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.report.page.margin_charts import chance, chance_level, margin_charts
from ttm_jax.report.page.svg_chart import Point, Series, line_chart
from ttm_jax.report.run_data import Experiment, SeedRun
from ttm_jax.runs.read.fields import LARGEST
from ttm_jax.training.schedules import learning_rates

_MOST_STEPS = 300
Row = dict[str, Any]


def charts(experiment: Experiment, paper: PaperResult | None) -> list[Markup]:
    """Charts over iterations, then those about margins; what is unknown is left out."""
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


def comparison_chart(experiments: Sequence[Experiment], names: Sequence[str]) -> Markup:
    """Several experiments in one chart: the headline metric of each, as the mean over its seeds."""
    lines = []
    for colour, (experiment, name) in enumerate(zip(experiments, names, strict=True)):
        values = _over_seeds(experiment, _metric(experiment.first.main_metric))
        lines.append(Series(name, _mean(values), colour % 6))
    levels = sorted({chance(experiment.first) for experiment in experiments})
    lines += [Series(f"chance, {level:.2f}", ((0, level),), 5, "level") for level in levels]
    labels = {METRICS[experiment.first.main_metric].label for experiment in experiments}
    title = f"{' or '.join(sorted(labels))} of the adapted model"
    return line_chart(title, "iteration", "percent", lines, whole_x=True)


def scores_chart(experiment: Experiment, paper: PaperResult | None) -> Markup:
    main = experiment.first.main_metric
    names = (
        [main, "group_score"] if "group_score" in experiment.first.rows[0]["metrics"] else [main]
    )
    if not experiment.has_truth:
        return Markup()
    lines = []
    for colour, name in enumerate(names):
        lines += _mean_and_seeds(experiment, METRICS[name].label, _metric(name), colour)
    for colour, name in enumerate(names):
        level = experiment.first.rows[0]["metrics"][name]["chance"]
        lines.append(Series(f"chance of {METRICS[name].label}", ((0, level),), colour, "level"))
    if paper is not None and paper.ttm is not None:
        lines.append(Series("TTM in the paper", ((0, paper.ttm),), 3, "level"))
    return line_chart("Scores", "iteration", "percent", lines, whole_x=True)


def selection_chart(experiment: Experiment) -> Markup:
    lines = _mean_and_seeds(experiment, "selected", _selected, 0)
    right = _mean_and_seeds(experiment, "right among the selected", _precision, 1)
    estimated = _mean(_estimated_precision(experiment))
    if experiment.has_truth:
        lines += [*right, chance_level(experiment.first, 1)]
    elif estimated:
        lines.append(chance_level(experiment.first, 3))
    if estimated:
        lines.append(Series("right, estimated without labels", estimated, 3))
    title = "Pseudo-labels: how many" + (", how many right" if experiment.has_truth else "")
    return line_chart(title, "iteration", "percent", lines, y_range=(0, 100), whole_x=True)


def tau_chart(experiment: Experiment) -> Markup:
    lines = _mean_and_seeds(experiment, "tau", lambda row: row.get("tau"), 0)
    return line_chart("Threshold tau", "iteration", "tau", lines, whole_x=True)


def loss_chart(experiment: Experiment) -> Markup:
    """Every step; x is the iteration with its steps as fractions."""
    lines = [
        Series(f"seed {run.seed}", _steps(run, lambda row, steps: row["losses"]), number % 6)
        for number, run in enumerate(experiment.runs)
    ]
    return line_chart("Training loss of every step", "iteration", "loss", lines, whole_x=True)


def rate_chart(experiment: Experiment) -> Markup:
    c = experiment.config

    def rates(row: Row, steps: int) -> list[float]:
        at = row["iteration"] - 1
        try:
            return learning_rates(c["lr"], at, steps, c["lr_decay"], c["min_lr_factor"]).tolist()
        except OverflowError:  # a decay far above 1; such points are left out
            return [math.inf] * steps

    points = _steps(experiment.first, rates)
    lines = [Series(f"seed {experiment.first.seed}", points, 0)]
    title = "Learning rate of every step"
    return line_chart(title, "iteration", "learning rate", lines, whole_x=True)


def _estimated_precision(experiment: Experiment) -> list[tuple[Point, ...]]:
    """Of what an iteration selects, estimated with the model before it."""
    return [
        tuple(
            (row["iteration"] + 1, 100 * row["estimate"]["precision"]["value"])
            for row in run.rows[:-1]
            if row.get("estimate")
        )
        for run in experiment.runs
    ]


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
        pairs = zip(xs.tolist(), values(row, steps), strict=True)
        points += ((x, y) for x, y in pairs if abs(y) <= LARGEST)
    every = max(1, -(-len(points) // _MOST_STEPS))
    return tuple(points[::every])
