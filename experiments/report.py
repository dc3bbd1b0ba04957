"""One HTML page about runs: results beside the paper's, curves, margins, every group.

    python -m experiments.report runs/small/color_swap_small-siglip_group
    python -m experiments.report runs/mmvp_siglip runs/mmvp_clip -o mmvp.html --tables tables

The page is one file that opens from disk. It is made from run folders only.
"""

from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli import run


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
    tables: Path | None = None,
    pictures: bool = True,
    title: str = "Test-Time Matching",
) -> None:
    """Write a report about runs.

    Args:
        runs: run folders, folders of experiments with seeds in them, or folders of those.
        output: where the page goes.
        tables: also write results.md, results.csv and results.tex into this folder.
        pictures: put the thumbnails into the page; --no-pictures makes it much smaller.
        title: what the page is called.
    """
    from configs.models import MODELS
    from ttm_jax.errors import InputError
    from ttm_jax.report.page import write_page
    from ttm_jax.report.run_data import read_experiments
    from ttm_jax.report.tables import summary_rows, write_tables

    if not runs:
        raise InputError("no run folder given; try: python -m experiments.report runs/small")
    names = {source: name for name, source in MODELS.items()}
    experiments = read_experiments(runs)
    write_page(experiments, output, models=names, pictures=pictures, title=title)
    size = output.stat().st_size / 1e6
    count = sum(len(experiment.runs) for experiment in experiments)
    print(f"{output}: {count} runs of {len(experiments)} experiments, {size:.1f} MB")
    if tables is not None:
        for path in write_tables(summary_rows(experiments, names), tables):
            print(path)


if __name__ == "__main__":
    run(lambda: tyro.cli(main))
