"""A diagnosis as text, as JSON and as a figure."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.diagnosis import Diagnosis
from ttm_jax.files import write_atomic
from ttm_jax.matching.decoys import Estimate
from ttm_jax.report.figures.curves import COLOURS


def as_text(found: Diagnosis, dataset: GroupedDataset, model: str) -> str:
    """What `ttm diagnose` prints."""
    groups, draws = found.margins.decoys.shape
    removed = "" if found.prior == "none" else f" (captions' prior: {found.prior})"
    lines = [f"{dataset.name}, {model}: {groups} groups, {draws} decoys for each{removed}"]
    lines += _estimates(found)
    if found.with_prior_removed is not None:
        lines.append("with the captions' prior removed (--prior subtract):")
        lines += [f"  {line}" for line in _estimates(found.with_prior_removed)]
    lines += [f"chance: {100 * float(found.margins.chance.mean()):.1f} %", found.sentence]
    return "\n".join(lines)


def _estimates(found: Diagnosis) -> list[str]:
    lines = [
        f"knows nothing: p = {found.p_value:.2g}",
        f"right among the first {found.selected} groups (tau_1 {found.tau:.4g}): "
        + _percent(found.precision, found.true_precision),
        "right among all groups: " + _percent(found.accuracy, found.true_accuracy),
    ]
    if found.grounded_gain is not None:
        assert found.blind_accuracy is not None  # or there would be no gain
        lines.append(
            f"grounded gain: {100 * found.grounded_gain:+.1f} points (right with unrelated images: "
            f"{100 * found.blind_accuracy:.1f} %)"
        )
    return lines


def as_json(found: Diagnosis) -> str:
    """One object; shares are from 0 to 1."""
    return json.dumps(fields(found))


def fields(found: Diagnosis) -> dict[str, Any]:
    """What `as_json` prints."""
    other = found.with_prior_removed
    return {
        "groups": len(found.margins.groups),
        "decoys": int(found.margins.decoys.shape[1]),
        "prior": found.prior,
        "p_value": found.p_value,
        "tau_1": found.tau,
        "selected": found.selected,
        "precision": vars(found.precision),
        "accuracy": vars(found.accuracy),
        "chance": float(found.margins.chance.mean()),
        "true_precision": found.true_precision,
        "true_accuracy": found.true_accuracy,
        "blind_accuracy": found.blind_accuracy,
        "grounded_gain": found.grounded_gain,
        "go_ahead": found.go_ahead,
        "sentence": found.sentence,
        "with_prior_removed": None if other is None else fields(other),
    }


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
