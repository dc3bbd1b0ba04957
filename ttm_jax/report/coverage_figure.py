"""The paper's Fig. 2 for any scores: how much a threshold selects and how much of that is right."""

from pathlib import Path

from ttm_jax.coverage import CoveragePoint
from ttm_jax.files import write_atomic


def draw_coverage(points: list[CoveragePoint], unit: str, title: str, path: Path) -> None:
    """Write a PNG; `points` in ascending order of tau, `unit` is groups or pairs."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    taus = [point.tau for point in points]
    coverage = [point.coverage_percent for point in points]
    axes.step(taus, coverage, where="post", color="tab:blue", label=f"{unit} selected")
    known = [(p.tau, p.precision_percent) for p in points if p.precision_percent is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color="tab:orange", label="right among the selected")
    axes.set_xlabel("threshold tau" + (" (margin)" if unit == "groups" else " (share left out)"))
    axes.set_ylabel("percent")
    axes.set_ylim(0, 102)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    axes.set_title(title)
    write_atomic(path, lambda file: figure.savefig(file, format="png"))
