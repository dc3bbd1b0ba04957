"""The paper's Fig. 2 for any scores: how much a threshold selects and how much of that is right."""

from pathlib import Path

from ttm_jax.files import write_atomic
from ttm_jax.matching.coverage_curve import CoveragePoint
from ttm_jax.report.figures.curves import COLOURS

FIRST_GROUPS = (15.0, 30.0)  # percent that the paper selects at first (Sec. 4.6)
FIRST_PAIRS = 50.0  # the same for a global matching


def draw_coverage(points: list[CoveragePoint], unit: str, title: str, path: Path) -> None:
    """Write a PNG; `points` in ascending order of tau, `unit` is groups or pairs."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    if unit == "groups":
        low, high = FIRST_GROUPS
        label = f"suggested for tau_1: {low:.0f}-{high:.0f} % selected"
        axes.axhspan(low, high, color=COLOURS[4], alpha=0.15, label=label)
    else:
        label = f"suggested for tau_1: about {FIRST_PAIRS:.0f} % selected"
        axes.axhline(FIRST_PAIRS, color=COLOURS[4], linestyle=":", label=label)
    taus = [point.tau for point in points]
    coverage = [point.coverage_percent for point in points]
    axes.step(taus, coverage, where="post", color=COLOURS[0], label=f"{unit} selected")
    known = [(p.tau, p.precision_percent) for p in points if p.precision_percent is not None]
    if known:
        axes.plot(
            *zip(*known, strict=True), "--", color=COLOURS[1], label="right among the selected"
        )
    axes.set_xlabel("threshold tau" + (" (margin)" if unit == "groups" else " (share left out)"))
    axes.set_ylabel("percent")
    axes.set_ylim(0, 102)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    axes.set_title(title)
    write_atomic(path, lambda file: figure.savefig(file, format="png"))
