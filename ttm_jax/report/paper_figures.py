"""The paper's Figures 1 to 4 from run folders: which runs go into which panel, and the files.

A figure is drawn as far as there are runs for it; what is missing is said, not made up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.data.paper import paper_results
from ttm_jax.errors import InputError
from ttm_jax.files import write_atomic
from ttm_jax.report import figure_panels as panels
from ttm_jax.report.paper_numbers import pretty
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables import SummaryRow, summary_rows

FORMATS = ("png", "pdf", "svg")
Panel = Callable[[Any], None]


@dataclass(frozen=True)
class Drawing:
    """Panels of one figure, left to right, and what could not be drawn."""

    name: str
    panels: tuple[Panel, ...]
    missing: tuple[str, ...] = ()


def drawings(experiments: Sequence[Experiment], models: Mapping[str, str]) -> list[Drawing]:
    """The four figures; one without any run has no panels."""
    known = [experiment for experiment in experiments if experiment.has_truth]
    if not known:
        raise InputError("none of the runs knows the truth of its data: there is nothing to draw")
    grouped = [row for row in summary_rows(known, models) if row.result.matching == "group"]
    square = [row for row in grouped if not _one_by_k(row)]
    single = [row for row in grouped if _one_by_k(row)]
    return [
        _bars("figure_1_main", square, "groups of k x k"),
        _thresholds_and_schedules(known),
        _bars("figure_3_one_by_k", single, "groups of 1 x k"),
        _analyses(known),
    ]


def write_figures(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    models: Mapping[str, str] | None = None,
    formats: Sequence[str] = ("png",),
) -> tuple[list[Path], list[str]]:
    """Draw what there are runs for; the files, and in words what is missing."""
    written, missing = [], []
    for drawing in drawings(experiments, models or {}):
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
    # Fonts stay text, and two drawings of the same runs are the same file.
    settings: Any = {"svg.hashsalt": drawing.name, "svg.fonttype": "none", "pdf.fonttype": 42}
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(4.3 * count, 3.4), dpi=200, layout="constrained")
        for axes, panel in zip(
            figure.subplots(1, count, squeeze=False)[0], drawing.panels, strict=True
        ):
            panel(axes)
            axes.spines[["top", "right"]].set_visible(False)
            handles, _ = axes.get_legend_handles_labels()
            if handles and axes.get_legend() is None:
                axes.legend(fontsize=7)
        write_atomic(path, lambda file: figure.savefig(file, format=kind, metadata=metadata))


def _one_by_k(row: SummaryRow) -> bool:
    return all(shape.startswith("1x") for shape in row.result.shape.split(", "))


def _bars(name: str, rows: Sequence[SummaryRow], what: str) -> Drawing:
    """A panel a dataset, with GPT-4.1 as the paper has it where the data is the paper's."""
    by_dataset: dict[str, list[SummaryRow]] = {}
    for row in rows:
        if not row.ablation:  # those have figures of their own
            by_dataset.setdefault(row.result.variant, []).append(row)
    made = []
    for dataset, members in by_dataset.items():
        references = [
            r for r in paper_results()
            if r.dataset == dataset and r.model == "gpt_4_1" and any(m.paper for m in members)
        ]  # fmt: skip

        def panel(axes: Any, members: Any = members, references: Any = references,
                  dataset: str = dataset) -> None:  # fmt: skip
            panels.result_bars(axes, members, references)
            axes.set_title(pretty(dataset), fontsize=9)

        made.append(panel)
    return Drawing(name, tuple(made), () if made else (f"no runs on {what}",))


def _thresholds_and_schedules(experiments: Sequence[Experiment]) -> Drawing:
    plain = [e for e in experiments if _is_plain(e)]
    square = [e for e in plain if not e.shape.startswith("1x")][:1]
    single = [e for e in plain if e.shape.startswith("1x")][:1]
    made: list[Panel] = [
        lambda axes, e=e: panels.thresholds(axes, e)  # type: ignore[misc]
        for e in (*square, *single)
    ]
    missing = [] if square else ["no run on groups of k x k for the thresholds"]
    missing += [] if single else ["no run on groups of 1 x k for the thresholds"]
    arms = _arms(experiments, _schedule_name)
    if arms:
        made.append(lambda axes: panels.final_scores(axes, list(arms.values()), list(arms)))
    else:
        missing.append("no two runs that differ in the schedule only (constant, ascending, decay)")
    return Drawing("figure_2_thresholds", tuple(made), tuple(missing))


def _analyses(experiments: Sequence[Experiment]) -> Drawing:
    made: list[Panel] = []
    missing = []
    dataset, models = _metrics_by_model(experiments)
    if models:
        made.append(lambda axes: panels.metric_bars(axes, models, dataset))
    else:
        missing.append("no run that matches groups for the metrics")
    skyline = _arms(experiments, lambda e: "oracle" if e.config["oracle"] else
                    "TTM" if _is_plain(e) else None)  # fmt: skip
    if skyline:
        made.append(lambda axes: panels.curves(axes, list(skyline.values()), list(skyline)))
    else:
        missing.append("no run with the oracle beside one without")
    starts = _arms(experiments, _tau_name)
    if starts:
        made.append(lambda axes: panels.final_scores(axes, list(starts.values()), list(starts)))
    else:
        missing.append("no two runs that differ in the first threshold only")
    return Drawing("figure_4_analyses", tuple(made), tuple(missing))


def _metrics_by_model(
    experiments: Sequence[Experiment],
) -> tuple[str, list[tuple[str, dict[str, float]]]]:
    """Metrics of the models as they came, on the first dataset; global ones from global runs."""
    grouped = [e for e in experiments if not e.first.is_global and not e.shape.startswith("1x")]
    if not grouped:
        return "", []
    dataset = grouped[0].dataset
    values: dict[str, dict[str, float]] = {}
    for experiment in experiments:
        if experiment.dataset == dataset:
            found = experiment.first.rows[0]["metrics"]
            known = {name: found[name]["percent"] for name in panels.METRICS if name in found}
            values.setdefault(experiment.model, {}).update(known)
    return dataset, list(values.items())


def _arms(
    experiments: Sequence[Experiment], name: Callable[[Experiment], str | None]
) -> dict[str, Experiment]:
    """The first data and model with at least two differently named experiments, by their names."""
    every: dict[tuple[str, str, str], dict[str, Experiment]] = {}
    for experiment in experiments:
        label = name(experiment)
        if label is not None:
            key = (experiment.dataset, experiment.model, experiment.config["matching"])
            every.setdefault(key, {}).setdefault(label, experiment)
    return next((arms for arms in every.values() if len(arms) > 1), {})


def _is_plain(experiment: Experiment) -> bool:
    """Run as the paper runs it: groups, everything trained, a falling threshold, no labels."""
    c = experiment.config
    falling = c["schedule"] in ("linear", "cosine")
    return c["matching"] == "group" and c["train"] == "all" and falling and not c["oracle"]


def _schedule_name(experiment: Experiment) -> str | None:
    if experiment.config["oracle"]:
        return None
    names = {"constant": "constant", "ascending": "ascend", "linear": "decay", "cosine": "decay"}
    return names[experiment.config["schedule"]]


def _tau_name(experiment: Experiment) -> str | None:
    """By the first threshold and how much it selected."""
    if not _is_plain(experiment) or experiment.first.last < 1:
        return None
    row = experiment.first.rows[1]
    return f"{row['tau']:.3g}\n({100 * row['selected'] / row['units']:.0f} %)"
