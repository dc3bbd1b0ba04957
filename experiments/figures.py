"""The paper's Figures 1 to 4, from run folders, as PNG, PDF or SVG.

    python -m experiments.figures runs/winoground_siglip runs/mmvp_siglip runs/colorswap_siglip
    python -m experiments.figures runs --formats pdf svg -o figures

Figure 1: raw, SimpleMatch and TTM. Figure 2: thresholds, and schedules of the threshold. Figure 3:
groups of 1 x k. Figure 4: metrics, the oracle, and the first threshold. Each is drawn from the runs
that there are for it; the command says what is missing.
"""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from ttm_jax.cli import run


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("figures"),
    formats: tuple[Literal["png", "pdf", "svg"], ...] = ("png",),
) -> None:
    """Draw the paper's figures.

    Args:
        runs: run folders, folders of experiments with seeds in them, or folders of those.
        output: the folder where the figures go.
        formats: png, pdf, svg; several are possible.
    """
    from configs.models import MODELS
    from ttm_jax.errors import InputError
    from ttm_jax.report.paper_figures import write_figures
    from ttm_jax.report.run_data import read_experiments

    if not runs:
        raise InputError("no run folder given; try: python -m experiments.figures runs")
    names = {source: name for name, source in MODELS.items()}
    written, missing = write_figures(read_experiments(runs), output, models=names, formats=formats)
    for path in written:
        print(path)
    for text in missing:
        print(f"not drawn, {text}")


if __name__ == "__main__":
    run(lambda: tyro.cli(main))
