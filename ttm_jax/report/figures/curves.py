"""Curves over iterations from run folders, as one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttm_jax.matching.metric_names import headline_in
from ttm_jax.runs.folder import RunFolder

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw_curves(runs: dict[str, Sequence[Path]], figure: Path) -> None:
    """For each named experiment and its seeds: accuracy, what was selected, how much was right."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for order, (name, folders) in enumerate(runs.items()):
        colour = COLOURS[order % len(COLOURS)]
        for number, folder in enumerate(folders):
            rows = RunFolder(folder).metrics()
            label = name if number == 0 else None
            for axis, values in zip(axes, _series(rows), strict=True):
                axis.plot(*values, color=colour, alpha=0.8, label=label, marker=".")
    titles = ("GroupMatch of the adapted model, %", "selected, % of the units",
              "precision of the pseudo-labels, %")  # fmt: skip
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
        axis.set_xlabel("iteration")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    figure.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(figure, dpi=130)
    plt.close(fig)


def _series(rows: list[dict[str, Any]]) -> list[tuple[list[int], list[float]]]:
    score = headline_in(rows[0]["metrics"])
    trained = rows[1:]
    return [
        ([r["iteration"] for r in rows], [r["metrics"][score]["percent"] for r in rows]),
        (
            [r["iteration"] for r in trained],
            [100 * r["selected"] / r["units"] for r in trained],
        ),
        (
            [r["iteration"] for r in trained if r["precision"] is not None],
            [100 * r["precision"] for r in trained if r["precision"] is not None],
        ),
    ]
