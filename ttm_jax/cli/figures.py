"""The paper's Figures 1 to 4, from run folders, as PNG, PDF or SVG.

    ttm figures runs/winoground_siglip runs/mmvp_siglip runs/colorswap_siglip
    ttm figures runs --formats pdf svg -o figures

Figure 1: raw, SimpleMatch and TTM. Figure 2: thresholds, and schedules of the threshold. Figure 3:
groups of 1 x k. Figure 4: metrics, the oracle, and the first threshold. Each is drawn from the runs
that are found, ablation_metrics, ablation_coverage and GPT-4.1 included; the command says what is
missing.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ttm_jax.cli.options import parse


def draw(
    runs: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="(required)"),
    ],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o", "--out"])] = Path("figures"),
    formats: tuple[Literal["png", "pdf", "svg"], ...] = ("png",),
) -> None:
    """Draw the paper's figures.

    Args:
        runs: Run folders, folders of experiments with seeds in them, or folders of those.
        output: Folder for the figures.
        formats: One or more of png, pdf, svg.
    """
    from ttm_jax.data.paper.models import MODELS
    from ttm_jax.errors import InputError
    from ttm_jax.report.figures.paper import write_figures
    from ttm_jax.report.figures.sources import find_sources

    if not runs:
        raise InputError("no run folder given; try: ttm figures runs")
    names = {source: name for name, source in MODELS.items()}
    written, missing = write_figures(find_sources(runs), output, models=names, formats=formats)
    for path in written:
        print(path)
    for text in missing:
        print(f"not drawn, {text}")


def main(argv: Sequence[str]) -> None:
    parse(draw, argv, "ttm figures", __doc__)
