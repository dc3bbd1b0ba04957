"""Look into a checkpoint: a run or any other orbax folder, a Hugging Face folder, a big_vision npz.

    ttm inspect runs/mmvp_siglip/seed_0 --depth 3
    ttm inspect runs/mmvp_siglip/seed_0 --scores
    ttm inspect --diff small-siglip runs/mine

Needs no accelerator, and none of the devices that wrote the checkpoint.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli.options import Switch, option, parse


def inspect(
    path: Annotated[tyro.conf.Positional[str | None], option("PATH")] = None,
    depth: int = 4,
    step: Annotated[int | None, option("N", "the last")] = None,
    json: Switch = False,
    diff: Annotated[tuple[str, str] | None, option("A B")] = None,
    top: int = 25,
    figure: Annotated[Path | None, option("PATH")] = None,
    scores: Switch = False,
) -> None:
    """Show what is in a checkpoint.

    Args:
        path: A run folder, what `ttm adapt` has written, an orbax folder or a step of it, a
            Hugging Face folder or hub id, a small model by name, or an .npz file.
        depth: How deep the tree is shown; 0 shows everything.
        step: Which step of an orbax folder to show.
        json: Print one JSON object instead of tables.
        diff: Two checkpoints: how far each parameter moved from the first to the second, the
            largest relative change first, and how far each layer of each tower. A step of a run is
            named by its folder, RUN/checkpoints/3.
        top: How many changes to list; 0 lists all.
        figure: Also draw the drift by depth into this file (.png, .pdf, .svg).
        scores: Show the metrics stored with each step.
    """
    from ttm_jax.errors import InputError
    from ttm_jax.report.checkpoints import tree

    if diff is not None:
        if path is not None:
            raise InputError("give either a checkpoint or --diff A B, not both")
        show_diff(diff, top, figure, json)
        return
    if path is None:
        raise InputError("no checkpoint given; name one, or two with --diff A B")
    where = tree.locate(path)
    if scores:
        show_scores(where, json)
    else:
        show_tree(where, depth, step, json)


def show_tree(where: Path, depth: int, step: int | None, as_json: bool) -> None:
    import json

    from ttm_jax.report.checkpoints import tree
    from ttm_jax.report.checkpoints.printing import print_tree

    leaves = tree.read_leaves(where, step)
    if as_json:
        print(json.dumps(tree.as_json(where, leaves)))
    else:
        print_tree(where, tree.kind_of(where), leaves, depth)


def show_scores(where: Path, as_json: bool) -> None:
    import json

    from ttm_jax.report.checkpoints.printing import print_scores
    from ttm_jax.report.checkpoints.tree import stored_scores

    rows = stored_scores(where)
    if as_json:
        print(json.dumps(rows))
    else:
        print_scores(rows)


def show_diff(pair: tuple[str, str], top: int, figure: Path | None, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    from ttm_jax.report.checkpoints import diff
    from ttm_jax.report.checkpoints.printing import draw_drift, print_diff
    from ttm_jax.report.checkpoints.tree import locate

    changes = diff.diff(locate(pair[0]), locate(pair[1]))
    drifts = diff.drift(changes)
    if as_json:
        rows = [{**asdict(c), "relative": c.relative if c.before else None} for c in changes]
        print(json.dumps({"changes": rows, "drift": [asdict(d) for d in drifts]}))
    else:
        print_diff(changes, drifts, top)
    if figure is not None:
        draw_drift(drifts, figure)


def main(argv: Sequence[str]) -> None:
    parse(inspect, argv, "ttm inspect", __doc__)
