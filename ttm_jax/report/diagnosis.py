"""A diagnosis as text, as JSON and as a figure."""

import json
from pathlib import Path

import numpy as np

from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.diagnosis import Diagnosis
from ttm_jax.files import write_atomic
from ttm_jax.matching.decoys import Estimate
from ttm_jax.report.figures.curves import COLOURS


def as_text(found: Diagnosis, dataset: GroupedDataset, model: str) -> str:
    """What `ttm diagnose` prints."""
    groups, draws = found.margins.decoys.shape
    lines = [
        f"{dataset.name}, {model}: {groups} groups, {draws} decoys for each",
        f"knows nothing: p = {found.p_value:.2g}",
        f"right among the first {found.selected} groups (tau_1 {found.tau:.4g}): "
        + _percent(found.precision, found.true_precision),
        "right among all groups: " + _percent(found.accuracy, found.true_accuracy),
        f"chance: {100 * float(found.margins.chance.mean()):.1f} %",
        found.sentence,
    ]
    return "\n".join(lines)


def as_json(found: Diagnosis) -> str:
    """One object; shares are from 0 to 1."""
    return json.dumps(
        {
            "groups": len(found.margins.groups),
            "decoys": int(found.margins.decoys.shape[1]),
            "p_value": found.p_value,
            "tau_1": found.tau,
            "selected": found.selected,
            "precision": vars(found.precision),
            "accuracy": vars(found.accuracy),
            "chance": float(found.margins.chance.mean()),
            "true_precision": found.true_precision,
            "true_accuracy": found.true_accuracy,
            "go_ahead": found.go_ahead,
            "sentence": found.sentence,
        }
    )


def draw_margins(found: Diagnosis, title: str, path: Path) -> None:
    """Histograms of the margins of groups and decoys, as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    groups, decoys = found.margins.groups, found.margins.decoys.reshape(-1)
    edges = np.linspace(0, float(np.quantile(np.concatenate([groups, decoys]), 0.99)) or 1.0, 31)
    for values, label, colour in ((groups, "groups", 0), (decoys, "decoys", 1)):
        shares = 100 * np.histogram(values, edges)[0] / len(values)
        axes.stairs(shares, edges, label=label, color=COLOURS[colour], fill=True, alpha=0.4)
    axes.axvline(found.tau, color=COLOURS[4], linestyle=":", label="tau_1")
    axes.set_xlabel("margin")
    axes.set_ylabel("percent")
    axes.legend(fontsize=8)
    axes.set_title(title)
    write_atomic(path, lambda file: figure.savefig(file, format="png"))


def _percent(estimate: Estimate, truth: float | None) -> str:
    text = (
        f"about {100 * estimate.value:.1f} % "
        f"(95 % interval {100 * estimate.low:.1f} to {100 * estimate.high:.1f} %)"
    )
    return text if truth is None else f"{text}; in truth {100 * truth:.1f} %"
