"""Evaluate the scores of any model: every metric beside chance, and what a threshold selects.

    python -m experiments.evaluate_scores examples/scores_2x2.npz
    python -m experiments.evaluate_scores scores.jsonl --json
    python -m experiments.evaluate_scores matrix.npy --global

The formats (.npz, .npy, .csv, .jsonl) are described in docs/metrics.md.
"""

from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli import run


def main(
    file: tyro.conf.Positional[Path],
    json: bool = False,
    truth: str = "auto",
    global_: Annotated[bool, tyro.conf.arg(name="global")] = False,
    figure: Path | None = None,
) -> None:
    """Evaluate a file of scores that any image-text model has made.

    Args:
        file: the scores: .npz (scores, and if known truth and tags), .npy, .csv or .jsonl.
        json: print one JSON object instead of tables, and draw only if --figure is given.
        truth: which caption belongs to which image: "auto" takes what the file says and else
            "diagonal" (image i has caption i); "none" means that nobody knows; or a .npy file.
        global_: the file is one matrix of all images and captions, without groups.
        figure: where the picture of coverage and precision goes
            (default: <name of the file>_coverage.png in the current folder).
    """
    from ttm_jax.data.scorefile import read_score_file
    from ttm_jax.report.score_report import report_global, report_groups

    data = read_score_file(file, matrix=global_)
    if figure is None and not json:
        figure = Path(f"{file.stem}_coverage.png")
    report = report_global if global_ else report_groups
    report(data, name=file.name, truth=truth, as_json=json, figure=figure)


if __name__ == "__main__":
    run(lambda: tyro.cli(main))
