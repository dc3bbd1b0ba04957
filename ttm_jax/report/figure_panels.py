"""The panels of the paper's figures, each a function of matplotlib axes and experiments.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; bars differ in hatching too.
"""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from ttm_jax.data.paper import PaperResult
from ttm_jax.report.charts import TITLES
from ttm_jax.report.curves import COLOURS
from ttm_jax.report.decisions import decisions
from ttm_jax.report.margins import threshold_points
from ttm_jax.report.paper_numbers import pretty
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables import SummaryRow

GREY = "#8c8c8c"
_STYLES: dict[str, dict[str, Any]] = {
    "raw": {"color": COLOURS[0], "hatch": "//"},
    "simple_match": {"color": COLOURS[1], "hatch": ".."},
    "ttm": {"color": COLOURS[2]},
}


def result_bars(axes: Any, rows: Sequence[SummaryRow], references: Sequence[PaperResult]) -> None:
    """Raw, SimpleMatch and TTM of every model (Fig. 1); 1 x k groups have no SimpleMatch (Fig. 3).

    Diamonds are the paper's numbers for the same run; `references` are other rows of the paper.
    """
    names = [pretty(row.result.model) + (f"\n{row.label}" if row.label else "") for row in rows]
    names += [f"{pretty(row.model)}\n(paper)" for row in references]
    parts: tuple[str, ...] = ("raw", "simple_match", "ttm")
    labels = {"raw": "raw", "simple_match": "SimpleMatch", "ttm": "TTM"}
    if all(row.result.shape.startswith("1x") for row in rows):
        parts = ("raw", "ttm")
    width = 0.8 / len(parts)
    for number, part in enumerate(parts):
        offset = (number - (len(parts) - 1) / 2) * width
        style = {**_STYLES[part], "edgecolor": "white"}
        for place, row in enumerate(rows):
            value = row.result.ttm_mean if part == "ttm" else getattr(row.result, part)
            if value is None:
                continue
            error = row.result.ttm_std if part == "ttm" else None
            axes.bar(place + offset, value, width, yerr=error, capsize=2, **style)
            top = (place + offset, value + (error or 0.0))
            style_of_text = {"ha": "center", "textcoords": "offset points", "fontsize": 7}
            axes.annotate(f"{value:.1f}", top, (0, 3), **style_of_text)
            theirs = None if row.paper is None else getattr(row.paper, part)
            if theirs is not None:
                axes.plot(place + offset, theirs, "D", color="black", markersize=4, mfc="none")
        for place, reference in enumerate(references, len(rows)):
            value = getattr(reference, part)
            if value is not None:
                axes.bar(place + offset, value, width, alpha=0.45, **style)
        axes.bar(0, 0, label=labels[part], **style)
    if any(row.paper for row in rows):
        axes.plot([], [], "D", color="black", mfc="none", markersize=4, label="paper, the same run")
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_xlim(-0.6, len(names) - 0.4)
    _percent(axes)
    axes.set_ylim(0, 125)  # room for the legend
    axes.set_yticks(range(0, 101, 20))
    axes.legend(fontsize=7, loc="upper center", ncols=2, frameon=False)


def thresholds(axes: Any, experiment: Experiment) -> None:
    """What each threshold selects of the model as it came, and how much of it is right (Fig. 2)."""
    found = decisions(experiment.first, 0)
    points = threshold_points(found.confidence, found.unique, found.right)
    taus = [point.tau for point in points]
    axes.plot(taus, [point.coverage for point in points], color=COLOURS[0], label="selected")
    known = [(point.tau, point.precision) for point in points if point.precision is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "--", color=COLOURS[1], label="right among them")
    axes.set_xlabel("threshold on the margin")
    axes.set_title(title(experiment), fontsize=9)
    axes.grid(alpha=0.3)
    _percent(axes)


def final_scores(axes: Any, experiments: Sequence[Experiment], names: Sequence[str]) -> None:
    """The baseline (SimpleMatch) and the final score of every experiment, mean and spread.

    Points, not bars: the axis does not begin at zero.
    """
    metric = experiments[0].first.main_metric
    baseline = experiments[0].first.percent(metric, 0) or 0.0
    values = [[run.percent(metric) or 0.0 for run in e.runs] for e in experiments]
    means = [baseline, *(fmean(part) for part in values)]
    errors = [0.0, *(stdev(part) if len(part) > 1 else 0.0 for part in values)]
    for place, (mean, error) in enumerate(zip(means, errors, strict=True)):
        colour = GREY if place == 0 else COLOURS[(place - 1) % len(COLOURS)]
        marker = ("s", "o", "^", "D", "v")[place % 5]
        axes.errorbar(place, mean, yerr=error or None, fmt=marker, color=colour, capsize=4)
        axes.annotate(f"{mean:.1f}", (place, mean), (7, -3), textcoords="offset points", fontsize=8)
    axes.axhline(baseline, color=GREY, linestyle=":", linewidth=1)
    axes.set_xticks(range(len(means)), ["baseline", *names], fontsize=8)
    axes.set_xlim(-0.5, len(means) - 0.3)
    axes.margins(y=0.15)
    axes.grid(axis="y", alpha=0.3)
    axes.set_title(title(experiments[0]), fontsize=9)
    axes.set_ylabel(f"{TITLES[metric]}, percent")


def curves(axes: Any, experiments: Sequence[Experiment], names: Sequence[str]) -> None:
    """The score over iterations, mean over the seeds with every seed behind it."""
    metric = experiments[0].first.main_metric
    for number, (experiment, name) in enumerate(zip(experiments, names, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        seeds = [[run.percent(metric, t) or 0.0 for t in range(run.last + 1)]
                 for run in experiment.runs]  # fmt: skip
        for values in seeds:
            axes.plot(values, color=colour, alpha=0.3, linewidth=0.8)
        length = min(map(len, seeds))
        mean = [fmean(values[t] for values in seeds) for t in range(length)]
        style = ("-", "--", ":", "-.")[number % 4]
        axes.plot(mean, style, color=colour, marker=".", label=name)
    baseline = experiments[0].first.percent(metric, 0)
    axes.axhline(baseline, color=GREY, linestyle=":", label="baseline")
    axes.set_xlabel("iteration")
    axes.set_ylabel(f"{TITLES[metric]}, percent")
    axes.set_title(title(experiments[0]), fontsize=9)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)


METRICS = ("group_score", "individual_match", "global_match", "group_match")


def metric_bars(axes: Any, models: Sequence[tuple[str, dict[str, float]]], dataset: str) -> None:
    """The model as it came under each metric (Fig. 4, left); a metric that is not known is 0."""
    width = 0.8 / len(models)
    shown = [name for name in METRICS if any(name in values for _, values in models)]
    for number, (model, values) in enumerate(models):
        offset = (number - (len(models) - 1) / 2) * width
        heights = [values.get(name, 0.0) for name in shown]
        bars = axes.bar(
            [place + offset for place in range(len(shown))], heights, width,
            color=COLOURS[number % len(COLOURS)], label=pretty(model),
        )  # fmt: skip
        axes.bar_label(bars, [f"{height:.1f}" for height in heights], fontsize=7, padding=2)
    names = [TITLES[name].replace(" ", "\n") for name in shown]
    axes.set_xticks(range(len(shown)), names, fontsize=8)
    axes.set_title(pretty(dataset), fontsize=9)
    axes.legend(fontsize=7)
    _percent(axes)


def title(experiment: Experiment) -> str:
    return f"{pretty(experiment.dataset)}, {pretty(experiment.model)}"


def _percent(axes: Any) -> None:
    axes.set_ylim(0, 105)
    axes.set_ylabel("percent")
