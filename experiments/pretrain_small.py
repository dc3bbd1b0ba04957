"""Pretrain a small SigLIP or CLIP on the procedural world's training split.

    python -m experiments.pretrain_small --family siglip --out runs/small_siglip

The folder is an ordinary Hugging Face folder; its `recipe.json` has every setting, the time it took
and what came out.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import option, parse
from ttm_jax.hosts.join import Hosts, join

STAGES = ("words", "reading", "together", "positions")


@dataclass(frozen=True)
class Args:
    family: Literal["siglip", "clip"] = "siglip"
    """Which model."""
    out: Annotated[Path | None, option("PATH", "runs/small_FAMILY")] = None
    """Folder to write."""
    seed: Annotated[int | None, option("N", "the recipe's")] = None
    """Random seed; another one gives other weights of the same quality."""
    steps: Annotated[int | None, option("N", "the recipe's")] = None
    """Steps of each stage, for a quick trial."""
    start: Annotated[Path | None, option("PATH")] = None
    """Run only the last round of the last stage, from the weights in this folder."""
    hosts: Hosts = "auto"
    """Let the first of several hosts do it (TPU pod, SLURM, ...), or do not look for others."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.pretrain_small", __doc__)
    if join(args.hosts):
        return  # one host is enough
    from ttm_jax.small.pretrain import pretrain
    from ttm_jax.small.quality import measure
    from ttm_jax.small.recipe import RECIPES

    recipe = RECIPES[args.family]
    if args.seed is not None:
        recipe = replace(recipe, seed=args.seed)
    for name in STAGES if args.steps is not None else ():
        stage = replace(getattr(recipe, name), steps=args.steps)
        recipe = replace(recipe, **{name: stage})
    folder = args.out or Path(f"runs/small_{args.family}")

    def show(stage: str, step: int, loss: Any) -> None:
        steps = getattr(recipe, stage).steps
        if step % 100 == 0 or step == steps:
            print(f"{stage}: step {step}/{steps}  loss {float(loss):.3f}", flush=True)

    print(pretrain(recipe, folder, show, args.start))
    print(measure(folder))


if __name__ == "__main__":
    run(main)
