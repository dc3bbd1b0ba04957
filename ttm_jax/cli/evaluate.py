"""Evaluate the scores of any model: every metric beside chance, and what a threshold selects.

    ttm evaluate examples/scores_2x2.npz
    ttm evaluate scores.jsonl --json
    ttm evaluate matrix.npy --global

The formats (.npz, .npy, .csv, .jsonl) are described in docs/metrics.md.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli.options import Switch, option, parse


def evaluate(
    file: tyro.conf.Positional[Path],
    json: Switch = False,
    truth: str = "auto",
    global_: Annotated[bool, tyro.conf.arg(name="global", help_behavior_hint="")] = False,
    figure: Annotated[Path | None, option("PATH.png", "NAME_coverage.png in this folder")] = None,
) -> None:
    """Evaluate a file of scores that any image-text model has made.

    Args:
        file: The scores: .npz (scores and, if known, truth and tags), .npy, .csv or .jsonl.
        json: Print one JSON object instead of tables, and draw only if --figure is given.
        truth: Which caption belongs to which image: "auto" takes what the file says, otherwise
            "diagonal" (image i has caption i); "none" means unknown; or a .npy file.
        global_: The file is one matrix of all images and captions, without groups, or an .npz with
            image_embeddings and text_embeddings, of which very many can be matched. What
            `ttm score --out` has written is recognised without it.
        figure: Where the figure of coverage and precision goes.
    """
    from ttm_jax.data.score_files.read import read_score_file
    from ttm_jax.report.score_report import report_global, report_groups

    data = read_score_file(file, matrix=global_)
    if figure is None and not json:
        figure = Path(f"{file.stem}_coverage.png")
    report = report_global if len(data.scores.shape) == 2 else report_groups
    report(data, name=file.name, truth=truth, as_json=json, figure=figure)


def main(argv: Sequence[str]) -> None:
    parse(evaluate, argv, "ttm evaluate", __doc__)
