"""Look into a checkpoint: a run or any other orbax folder, a Hugging Face folder, a big_vision npz.

    python -m experiments.inspect_checkpoint runs/mmvp_siglip/seed_0 --depth 3
    python -m experiments.inspect_checkpoint runs/mmvp_siglip/seed_0 --scores
    python -m experiments.inspect_checkpoint --diff google/siglip-base-patch16-224 runs/mine

Needs no accelerator, and not the devices that wrote the checkpoint.
"""

from pathlib import Path

import tyro

from ttm_jax.cli import run


def main(
    path: tyro.conf.Positional[str | None] = None,
    depth: int = 4,
    step: int | None = None,
    json: bool = False,
    diff: tuple[str, str] | None = None,
    top: int = 25,
    figure: Path | None = None,
    scores: bool = False,
) -> None:
    """Show what is in a checkpoint.

    Args:
        path: a run folder, an orbax folder or a step of it, a Hugging Face folder or hub id, or an
            .npz file.
        depth: how deep the tree is shown; 0 shows everything.
        step: which step of an orbax folder (default: the last).
        json: print one JSON object instead of tables.
        diff: two checkpoints: how far each parameter moved from the first to the second, the
            largest relative change first, and how far each layer of each tower. A step of a run is
            named by its folder, RUN/checkpoints/3.
        top: how many changes are listed; 0 lists all.
        figure: also draw the drift by depth into this file (.png, .pdf, .svg).
        scores: the metrics that were stored with each step.
    """
    from ttm_jax.errors import InputError
    from ttm_jax.report import checkpoint_tree

    if diff is not None:
        if path is not None:
            raise InputError("give either a checkpoint or --diff A B, not both")
        show_diff(diff, top, figure, json)
        return
    if path is None:
        raise InputError("no checkpoint given; name one, or two with --diff A B")
    where = checkpoint_tree.locate(path)
    if scores:
        show_scores(where, json)
    else:
        show_tree(where, depth, step, json)


def show_tree(where: Path, depth: int, step: int | None, as_json: bool) -> None:
    import json

    from ttm_jax.report import checkpoint_tree
    from ttm_jax.report.checkpoint_print import print_tree

    leaves = checkpoint_tree.read_leaves(where, step)
    if as_json:
        print(json.dumps(checkpoint_tree.as_json(where, leaves)))
    else:
        print_tree(where, checkpoint_tree.kind_of(where), leaves, depth)


def show_scores(where: Path, as_json: bool) -> None:
    import json

    from ttm_jax.report.checkpoint_print import print_scores
    from ttm_jax.report.checkpoint_tree import stored_scores

    rows = stored_scores(where)
    if as_json:
        print(json.dumps(rows))
    else:
        print_scores(rows)


def show_diff(pair: tuple[str, str], top: int, figure: Path | None, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    from ttm_jax.report import checkpoint_diff
    from ttm_jax.report.checkpoint_print import draw_drift, print_diff
    from ttm_jax.report.checkpoint_tree import locate

    changes = checkpoint_diff.diff(locate(pair[0]), locate(pair[1]))
    drifts = checkpoint_diff.drift(changes)
    if as_json:
        rows = [{**asdict(c), "relative": c.relative if c.before else None} for c in changes]
        print(json.dumps({"changes": rows, "drift": [asdict(d) for d in drifts]}))
    else:
        print_diff(changes, drifts, top)
    if figure is not None:
        draw_drift(drifts, figure)


if __name__ == "__main__":
    run(lambda: tyro.cli(main))
