"""The paper's Figures 1 to 4 from run folders: what is in each panel, and the files.

A figure is drawn as far as there are runs for it; what is missing is said, not made up.
"""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.data.paper import paper_results
from ttm_jax.errors import InputError
from ttm_jax.files import write_atomic
from ttm_jax.report.decisions import decisions
from ttm_jax.report.figures import panels
from ttm_jax.report.figures.choose import (
    choose_arms,
    choose_metrics,
    choose_run,
    is_ablation,
    is_plain,
)
from ttm_jax.report.figures.sources import Measured, Sources
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables.from_runs import SummaryRow, summary_rows
from ttm_jax.report.tables.paper_numbers import pretty
from ttm_jax.report.tables.verdict import Comparison

Panel = Callable[[Any], None]
_PANEL = (4.3, 3.4)  # inches
_MOST_COLUMNS = 3
_DEVIATION = "Error bars: standard deviation over the runs, divided by n as in the paper."


@dataclass(frozen=True)
class Drawing:
    """Panels of one figure, left to right and down, and what could not be drawn."""

    name: str
    panels: tuple[Panel, ...]
    missing: tuple[str, ...] = ()
    one_legend: bool = False
    """All panels show the same things: one legend below the figure explains them."""
    width: float = _PANEL[0]
    """Of a panel."""
    has_deviations: bool = False


def drawings(sources: Sources, models: Mapping[str, str]) -> list[Drawing]:
    """The four figures; one without any run has no panels."""
    known = [experiment for experiment in sources.experiments if experiment.has_truth]
    if not known and not sources.measured and not sources.api_rows:
        raise InputError("none of the runs knows the truth of its data: there is nothing to draw")
    main = [e for e in known if not is_ablation(e)] or known
    grouped = [row for row in summary_rows(main, models) if row.result.matching == "group"]
    rows = [row for row in grouped if not row.ablation]  # those have figures of their own
    return [
        _bars("figure_1_main", [r for r in rows if not _one_by_k(r)], sources.api_rows, "k x k"),
        _thresholds_and_schedules(known, sources.measured),
        _bars("figure_3_one_by_k", [r for r in rows if _one_by_k(r)], (), "1 x k"),
        _analyses(known, sources.measured),
    ]


def write_figures(
    sources: Sources,
    folder: Path,
    *,
    models: Mapping[str, str] | None = None,
    formats: Sequence[str] = ("png",),
) -> tuple[list[Path], list[str]]:
    """Draw what there are runs for; returns the files, and in words what is missing."""
    written, missing = [], []
    for drawing in drawings(sources, models or {}):
        missing += [f"{drawing.name}: {text}" for text in drawing.missing]
        if drawing.panels:
            for kind in formats:
                path = folder / f"{drawing.name}.{kind}"
                _draw(drawing, path, kind)
                written.append(path)
    return written, missing


def _draw(drawing: Drawing, path: Path, kind: str) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    count = len(drawing.panels)
    columns = max(1, min(count, _MOST_COLUMNS, int(_MOST_COLUMNS * _PANEL[0] / drawing.width)))
    lines = math.ceil(count / columns)
    # Fonts stay text, and two drawings of the same runs are the same file.
    settings: Any = {"svg.hashsalt": drawing.name, "svg.fonttype": "none", "pdf.fonttype": 42}
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with matplotlib.rc_context(settings):
        size = (drawing.width * columns, _PANEL[1] * lines)
        figure = Figure(figsize=size, dpi=200, layout="constrained")
        grid = list(figure.subplots(lines, columns, squeeze=False).flat)
        for axes, panel in zip(grid, drawing.panels, strict=False):
            panel(axes)
            axes.spines[["top", "right"]].set_visible(False)
            if not drawing.one_legend and axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=7)
        for axes in grid[count:]:
            axes.set_visible(False)
        if drawing.one_legend:
            _legend_below(figure, grid[:count])
        if drawing.has_deviations:
            text = textwrap.fill(_DEVIATION, int(12 * size[0]))
            figure.supxlabel(text, fontsize=7, color=panels.GREY)
        write_atomic(path, lambda file: figure.savefig(file, format=kind, metadata=metadata))


def _legend_below(figure: Any, every: Sequence[Any]) -> None:
    """One entry per label, wherever it is used."""
    found: dict[str, Any] = {}
    for axes in every:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(), found.keys(), loc="outside upper center", ncols=len(found), fontsize=8,
        frameon=False,
    )  # fmt: skip


def _one_by_k(row: SummaryRow) -> bool:
    return all(shape.startswith("1x") for shape in row.result.shape.split(", "))


def _bars(
    name: str, rows: Sequence[SummaryRow], api_rows: Sequence[Comparison], what: str
) -> Drawing:
    """One panel per dataset. GPT-4.1 is drawn from its own runs, else as the paper has it."""
    by_dataset: dict[str, list[panels.Bars]] = {}
    of_paper = {row.result.variant for row in rows if row.paper is not None}
    for row in rows:
        by_dataset.setdefault(row.result.variant, []).append(panels.Bars.of_runs(row))
    for api in api_rows:
        by_dataset.setdefault(api.dataset, []).append(panels.Bars.of_api(api))
    asked = {api.dataset for api in api_rows if not api.note}
    for reference in paper_results():
        dataset = reference.dataset
        if reference.model == "gpt_4_1" and dataset in of_paper and dataset not in asked:
            by_dataset[dataset].append(panels.Bars.of_paper(reference))
    order = list(dict.fromkeys(row.dataset for row in paper_results()))
    datasets = sorted(by_dataset, key=lambda d: order.index(d) if d in order else len(order))
    parts = ("raw", "ttm") if what == "1 x k" else panels.PARTS

    def panel(dataset: str) -> Panel:
        def draw(axes: Any) -> None:
            panels.result_bars(axes, by_dataset[dataset], parts)
            axes.set_title(pretty(dataset), fontsize=9)

        return draw

    widest = max(map(len, by_dataset.values()), default=1)
    return Drawing(
        name,
        tuple(panel(dataset) for dataset in datasets),
        () if datasets else (f"no runs on groups of {what}",),
        one_legend=True,
        width=max(_PANEL[0], 0.85 * widest),
        has_deviations=any(
            error for part in by_dataset.values() for b in part for _, error in b.values.values()
        ),
    )


def _thresholds_and_schedules(
    experiments: Sequence[Experiment], measured: Sequence[Measured]
) -> Drawing:
    made: list[Panel] = []
    missing = []
    for dataset, one_image, what in (
        ("winoground", False, "k x k"),
        ("sugarcrepe_replace_rel", True, "1 x k"),
    ):
        panel = _threshold_panel(experiments, measured, dataset, one_image)
        made += [] if panel is None else [panel]
        missing += [f"no run on groups of {what} for the thresholds"] if panel is None else []
    arms = choose_arms(experiments, _schedule_name, ("schedule",), "ablation_schedules")
    if arms:
        order = [name for name in ("constant", "ascend", "decay") if name in arms]
        made.append(lambda axes: panels.final_scores(axes, [arms[n] for n in order], order))
    else:
        missing.append("no two runs that differ in the schedule only (constant, ascending, decay)")
    return Drawing(
        "figure_2_thresholds", tuple(made), tuple(missing), has_deviations=_repeated(arms)
    )


def _threshold_panel(
    experiments: Sequence[Experiment], measured: Sequence[Measured], dataset: str, one_image: bool
) -> Panel | None:
    """From the run of this benchmark, from `ablation_coverage`, or from another run."""
    run = choose_run(experiments, dataset, "siglip_b16", one_image=one_image)
    scored = [m for m in measured if m.experiment == "ablation_coverage"]
    scored = [m for m in scored if m.stands_for == dataset]
    if scored and (run is None or run.info.get("dataset", run.dataset) != dataset):
        best = min(scored, key=lambda m: m.small)
        found = best.decisions()
        if found is not None:
            title = f"{pretty(best.dataset)}, {pretty(best.model)}"
            return lambda axes: panels.thresholds(axes, *found, title)
    if run is None:
        return None
    raw = decisions(run.first, 0)
    return lambda axes: panels.thresholds(
        axes, raw.confidence, raw.unique, raw.right, panels.title_of(run)
    )


def _analyses(experiments: Sequence[Experiment], measured: Sequence[Measured]) -> Drawing:
    made: list[Panel] = []
    missing = []
    dataset, metrics = choose_metrics(measured, experiments)
    if metrics:
        made.append(lambda axes: panels.metric_bars(axes, metrics, dataset))
    else:
        missing.append("no run that matches groups, and no ablation_metrics, for the metrics")
    skyline = choose_arms(experiments, _oracle_name, ("oracle",), "ablation_oracle")
    if skyline:
        both = sorted(skyline, key=lambda name: name == "oracle")
        made.append(lambda axes: panels.curves(axes, [skyline[n] for n in both], both))
    else:
        missing.append("no run with the oracle beside one without")
    starts = choose_arms(experiments, _tau_name, ("tau_1", "coverage"), "ablation_threshold")
    if starts:
        # From the highest threshold to the lowest, as in the paper.
        order = sorted(starts, key=lambda name: -starts[name].first.rows[1]["tau"])
        made.append(lambda axes: panels.final_scores(axes, [starts[n] for n in order], order))
    else:
        missing.append("no two runs that differ in the first threshold only")
    return Drawing(
        "figure_4_analyses", tuple(made), tuple(missing), has_deviations=_repeated(starts)
    )


def _repeated(arms: Mapping[str, Experiment]) -> bool:
    """Whether there is a deviation to show."""
    return any(len(experiment.runs) > 1 for experiment in arms.values())


def _schedule_name(experiment: Experiment) -> str | None:
    if experiment.config["oracle"]:
        return None
    names = {"constant": "constant", "ascending": "ascend", "linear": "decay", "cosine": "decay"}
    return names[experiment.config["schedule"]]


def _oracle_name(experiment: Experiment) -> str | None:
    return "oracle" if experiment.config["oracle"] else "TTM" if is_plain(experiment) else None


def _tau_name(experiment: Experiment) -> str | None:
    """By the first threshold and how much it selected."""
    if not is_plain(experiment) or experiment.first.last < 1:
        return None
    row = experiment.first.rows[1]
    return f"{row['tau']:.3g}\n({100 * row['selected'] / row['units']:.0f} %)"
