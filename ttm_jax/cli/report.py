"""One HTML page about runs: results beside the paper's, curves, margins, every group.

    ttm report runs/small/color_swap_small-siglip_group
    ttm report runs/mmvp_siglip runs/mmvp_clip -o mmvp.html --tables tables

The page is one file that opens from disk. It is made from run folders only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli.options import Switch, option, parse


def report(
    runs: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="(required)"),
    ],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o", "--out"])] = Path("report.html"),
    tables: Annotated[Path | None, option("FOLDER")] = None,
    pictures: Switch = True,
    title: Annotated[str | None, option("TEXT", "dataset and model")] = None,
) -> None:
    """Write a report about runs.

    Args:
        runs: Run folders, folders of experiments with seeds in them, or folders of those.
        output: Where the page is written.
        tables: Also write results.md, results.csv and results.tex into this folder.
        pictures: Leave the thumbnails out, which makes the page much smaller.
        title: Title of the page.
    """
    from ttm_jax.data.paper.models import MODELS
    from ttm_jax.errors import InputError
    from ttm_jax.report.page.page import write_page
    from ttm_jax.report.run_data import read_experiments
    from ttm_jax.report.tables.from_runs import summary_rows, write_tables

    if not runs:
        raise InputError("no run folder given; try: ttm report runs/small")
    names = {source: name for name, source in MODELS.items()}
    experiments = read_experiments(runs)
    write_page(experiments, output, models=names, pictures=pictures, title=title)
    size = output.stat().st_size / 1e6
    count = sum(len(experiment.runs) for experiment in experiments)
    runs_text = "1 run" if count == 1 else f"{count} runs"
    if len(experiments) > 1:
        runs_text += f" of {len(experiments)} experiments"
    print(f"{output}: {runs_text}, {size:.1f} MB")
    if tables is not None:
        for path in write_tables(summary_rows(experiments, names), tables):
            print(path)


def main(argv: Sequence[str]) -> None:
    parse(report, argv, "ttm report", __doc__)
