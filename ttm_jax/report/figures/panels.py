"""The panels of the paper's figures, each a function of matplotlib axes and numbers.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; bars differ in hatching too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from ttm_jax.data.paper import PaperResult
from ttm_jax.matching.mean_over_seeds import population_std
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.report.figures.coverage import FIRST_GROUPS
from ttm_jax.report.figures.curves import COLOURS
from ttm_jax.report.margins import threshold_points
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables.from_runs import SummaryRow
from ttm_jax.report.tables.paper_numbers import pretty
from ttm_jax.report.tables.verdict import Comparison

GREY = "#8c8c8c"
PARTS = ("raw", "simple_match", "ttm")
_LABELS = {"raw": "raw", "simple_match": "SimpleMatch", "ttm": "TTM"}
_STYLES: dict[str, dict[str, Any]] = {
    "raw": {"color": COLOURS[0], "hatch": "//"},
    "simple_match": {"color": COLOURS[1], "hatch": ".."},
    "ttm": {"color": COLOURS[2]},
}
_DIAMOND: dict[str, Any] = {
    "marker": "D", "color": "black", "mfc": "white", "markersize": 4, "linestyle": "none",
    "zorder": 3,
}  # fmt: skip
_FEWEST_PLACES = 3  # a single model does not fill a whole panel
_NAME_WIDTH = 14  # letters of a model's name on one line


@dataclass(frozen=True)
class Bars:
    """A model in a bar chart: `values` are (percent, error or None) by part."""

    name: str
    values: Mapping[str, tuple[float, float | None]]
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's numbers for the same, drawn as diamonds."""
    faded: bool = False
    """Not run here: the bars themselves are the paper's."""

    @classmethod
    def of_runs(cls, row: SummaryRow) -> "Bars":
        r = row.result
        known = {"raw": (r.raw, None), "simple_match": (r.simple_match, None),
                 "ttm": (r.ttm_mean, r.ttm_std)}  # fmt: skip
        values = {part: (value, std) for part, (value, std) in known.items() if value is not None}
        name = pretty(r.model) + (f" {row.label}" if row.label else "")
        return cls(name, values, {} if row.paper is None else _paper_values(row.paper))

    @classmethod
    def of_api(cls, row: Comparison) -> "Bars":
        values, paper = {}, {}
        for verdict in row.verdicts:
            if verdict.here is not None:
                values[str(verdict.name)] = (verdict.here.percent, verdict.here.std)
            if verdict.paper is not None:
                paper[str(verdict.name)] = verdict.paper.percent
        return cls(pretty(row.model), values, paper)

    @classmethod
    def of_paper(cls, row: PaperResult) -> "Bars":
        values = {part: (value, None) for part, value in _paper_values(row).items()}
        return cls(f"{pretty(row.model)} (paper)", values, faded=True)


def _paper_values(row: PaperResult) -> dict[str, float]:
    known = {part: getattr(row, part) for part in PARTS}
    return {part: value for part, value in known.items() if value is not None}


def result_bars(axes: Any, models: Sequence[Bars], parts: Sequence[str] = PARTS) -> None:
    """Raw, SimpleMatch and TTM of every model (Fig. 1); 1 x k groups have no SimpleMatch (Fig. 3).

    Diamonds are the paper's numbers for the same run; pale bars are the paper's alone.
    """
    width = 0.8 / len(parts)
    crowded = len(models) * len(parts) > 12
    text: dict[str, Any] = {
        "ha": "center",
        "textcoords": "offset points",
        "fontsize": 6 if crowded else 7,
        "rotation": 90 if crowded else 0,
    }
    for number, part in enumerate(parts):
        offset = (number - (len(parts) - 1) / 2) * width
        style = {**_STYLES[part], "edgecolor": "white"}
        for place, model in enumerate(models):
            if part in model.values:
                value, error = model.values[part]
                shade = {"alpha": 0.45} if model.faded else {}
                axes.bar(place + offset, value, width, yerr=error, capsize=2, **style, **shade)
                top = (place + offset, value + (error or 0.0))
                axes.annotate(f"{value:.1f}", top, (0, 3), **text)
            if part in model.paper:  # at the edge of the bar, where no number is written
                axes.plot(place + offset + 0.4 * width, model.paper[part], **_DIAMOND)
        axes.bar(0, 0, label=_LABELS[part], **style)
    if any(model.paper for model in models):
        axes.plot([], [], label="paper, the same run", **_DIAMOND)
    names = [wrapped(model.name) for model in models]
    axes.set_xticks(range(len(names)), names, fontsize=7 if crowded else 8)
    room = max(0.0, (_FEWEST_PLACES - len(names)) / 2)
    axes.set_xlim(-0.6 - room, len(names) - 0.4 + room)
    percent(axes, 112)


def wrapped(name: str) -> str:
    """A name on lines of its own parts, so that neighbours do not overlap and no word is cut."""
    lines = [""]
    for part in re.findall(r"[^\s/_-]+[\s/_-]*", name) or [name]:
        if lines[-1] and len(lines[-1] + part.rstrip()) > _NAME_WIDTH:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip() for line in lines)


def thresholds(
    axes: Any, confidence: np.ndarray, unique: np.ndarray, right: np.ndarray | None, title: str
) -> None:
    """What each threshold selects with an untrained model, and how much is right (Fig. 2)."""
    points = threshold_points(confidence, unique, right)
    taus = [point.tau for point in points]
    axes.axhspan(*FIRST_GROUPS, color=COLOURS[4], alpha=0.15, label="suggested at first")
    axes.plot(taus, [point.coverage for point in points], color=COLOURS[0], label="selected")
    known = [(point.tau, point.precision) for point in points if point.precision is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "--", color=COLOURS[1], label="right among them")
    axes.set_xlabel("threshold on the margin")
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
    percent(axes, 105)


def final_scores(axes: Any, experiments: Sequence[Experiment], names: Sequence[str]) -> None:
    """The baseline (SimpleMatch) and the final score of every experiment, mean and deviation.

    Points, not bars: the axis does not begin at zero.
    """
    metric = experiments[0].first.main_metric
    baseline = experiments[0].first.percent(metric, 0) or 0.0
    values = [[run.percent(metric) or 0.0 for run in e.runs] for e in experiments]
    means = [baseline, *(fmean(part) for part in values)]
    errors = [0.0, *(population_std(part) or 0.0 for part in values)]
    for place, (mean, error) in enumerate(zip(means, errors, strict=True)):
        colour = GREY if place == 0 else COLOURS[(place - 1) % len(COLOURS)]
        marker = ("s", "o", "^", "D", "v")[place % 5]
        axes.errorbar(place, mean, yerr=error or None, fmt=marker, color=colour, capsize=4)
        above = (7, 4) if place == 0 else (7, -3)  # off the line of the baseline
        axes.annotate(f"{mean:.1f}", (place, mean), above, textcoords="offset points", fontsize=8)
    axes.axhline(baseline, color=GREY, linestyle=":", linewidth=1)
    axes.set_xticks(range(len(means)), ["baseline", *names], fontsize=8)
    axes.set_xlim(-0.5, len(means) - 0.3)
    axes.margins(y=0.15)
    axes.grid(axis="y", alpha=0.3)
    axes.set_title(title_of(experiments[0]), fontsize=9)
    axes.set_ylabel(f"{METRICS[metric].label}, percent")


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
    axes.locator_params(axis="x", integer=True)
    axes.set_ylabel(f"{METRICS[metric].label}, percent")
    axes.set_title(title_of(experiments[0]), fontsize=9)
    axes.grid(alpha=0.3)


SHOWN = ("group_score", "individual_match", "global_match", "group_match")


def metric_bars(
    axes: Any, models: Mapping[str, Mapping[str, Mapping[str, Any]]], dataset: str
) -> None:
    """Untrained models under each metric (Fig. 4, left); one that was not measured has no bar.

    Each metric has a chance level of its own, which the paper's figure does not draw.
    """
    width = 0.8 / len(models)
    shown = [name for name in SHOWN if any(name in values for values in models.values())]
    for number, (model, values) in enumerate(models.items()):
        offset = (number - (len(models) - 1) / 2) * width
        places = [place for place, name in enumerate(shown) if name in values]
        heights = [values[shown[place]]["percent"] for place in places]
        bars = axes.bar(
            [place + offset for place in places], heights, width,
            color=COLOURS[number % len(COLOURS)], label=pretty(model),
        )  # fmt: skip
        axes.bar_label(bars, [f"{height:.1f}" for height in heights], fontsize=7, padding=2)
    for place, name in enumerate(shown):
        chance = next(values[name]["chance"] for values in models.values() if name in values)
        axes.hlines(
            chance, place - 0.45, place + 0.45, colors="black", linestyles=":", linewidth=1.2,
            label="" if place else "chance",
        )  # fmt: skip
    names = [METRICS[name].label.replace(" ", "\n") for name in shown]
    axes.set_xticks(range(len(shown)), names, fontsize=8)
    axes.set_xlim(-0.5, len(shown) - 0.5)
    axes.set_title(pretty(dataset), fontsize=9)
    percent(axes, 105)


def title_of(experiment: Experiment) -> str:
    return f"{pretty(experiment.dataset)}, {pretty(experiment.model)}"


def percent(axes: Any, top: int) -> None:
    """An axis from 0 to 100 percent, with a little room above."""
    axes.set_ylim(0, top)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("percent")
