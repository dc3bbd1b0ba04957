"""Pretrain a small SigLIP or CLIP on the procedural world's training split.

    python -m experiments.pretrain_small --family siglip --out runs/small_siglip

The folder is an ordinary Hugging Face folder; its `recipe.json` has every setting, the time it took
and what came out.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro

from ttm_jax.cli import run

STAGES = ("words", "reading", "together")


@dataclass(frozen=True)
class Args:
    family: Literal["siglip", "clip"] = "siglip"
    """Which model."""
    out: Path | None = None
    """Folder to write (default: runs/small_<family>)."""
    seed: int | None = None
    """Another seed than the recipe's gives other weights of the same quality."""
    steps: int | None = None
    """Fewer steps of each stage, to try things."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
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

    print(pretrain(recipe, folder, show))
    print(measure(folder))


if __name__ == "__main__":
    run(main)
