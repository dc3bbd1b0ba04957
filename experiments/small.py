"""Test-Time Matching with a small model on a benchmark of the procedural world.

    python -m experiments.small --variant color_swap
    python -m experiments.small --variant relation_choice --model small-clip --seeds 0 1 2 3
    python -m experiments.small --variant color_swap --matching global

The models ship with the package and were made by `python -m experiments.pretrain_small`: no
download. Runs go to runs/small/<variant>_<model>_<matching>.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tyro

from ttm_jax.cli import run
from ttm_jax.config import Schedule


@dataclass(frozen=True)
class Args:
    variant: str = "color_swap"
    """What the groups ask; `python -m experiments.make_world --list` shows all."""
    model: str = "small-siglip"
    """small-siglip, small-clip, or any other checkpoint."""
    matching: Literal["group", "global"] = "group"
    """Match within groups, or all images and captions at once."""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """Order of the batches; the data is the same for all."""
    groups: int | None = None
    """How many groups (default: as many as in the README's table)."""
    data_seed: int = 0
    """Another seed gives other groups of the same kind."""
    iterations: int | None = None
    """Fewer or more iterations."""
    epochs: int | None = None
    """Fewer or more epochs an iteration."""
    lr: float | None = None
    """Another learning rate."""
    schedule: Schedule | None = None
    """How the threshold moves: linear, cosine, constant or ascending."""
    oracle: bool = False
    """Select exactly the right matchings: a skyline that uses the labels."""
    run_dir: Path | None = None
    """Where the runs go."""
    resume: bool = True
    """Take up a run that was stopped; --no-resume refuses a folder that holds one."""
    tensorboard: bool = False
    """Write event files for TensorBoard into the run folder (extra `tensorboard`)."""
    wandb: str | None = None
    """Log to this Weights & Biases project (extra `wandb`)."""
    quiet: bool = False
    """No progress, only the table."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    from configs.small import GROUPS, small_config
    from experiments._small import run_variant
    from ttm_jax.console import Console
    from ttm_jax.data import world
    from ttm_jax.report.results import print_rows

    shape = world.find_variant(args.variant).shape
    config = replace(small_config(shape, args.matching), oracle=args.oracle)
    for name in ("iterations", "epochs", "lr", "schedule"):
        if getattr(args, name) is not None:
            config = replace(config, **{name: getattr(args, name)})
    name = f"{args.variant}_{args.model.replace('/', '_')}_{args.matching}"
    folder = args.run_dir or Path("runs/small") / name
    with Console("quiet" if args.quiet else "auto") as console:
        row = run_variant(
            args.variant,
            args.model,
            args.matching,
            config,
            args.seeds,
            folder,
            console,
            groups=args.groups or GROUPS,
            data_seed=args.data_seed,
            resume=args.resume,
            tensorboard=args.tensorboard,
            wandb=args.wandb,
        )
    print_rows([row], f"Test-Time Matching on {args.variant}")
    print(f"run folder and checkpoints: {folder}")


if __name__ == "__main__":
    run(main)
