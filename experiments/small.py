"""Test-Time Matching with a small model on a benchmark of the procedural world.

    python -m experiments.small --variant color_swap
    python -m experiments.small --variant relation_choice --model small-clip --seeds 0 1 2 3
    python -m experiments.small --variant color_swap --matching global

The models ship with the package and were made by `python -m experiments.pretrain_small`: no
download. Runs go to runs/small/<variant>_<model>_<matching>.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from experiments._checks import check_at_least, check_seeds
from experiments._settings import saved_config
from ttm_jax.bucket_storage import shown, working_folder
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, given, option, parse
from ttm_jax.config import Dtype, Placement, Precision, Schedule, TTMConfig
from ttm_jax.hosts.join import Hosts, join
from ttm_jax.runs.trackers import check_trackers


@dataclass(frozen=True)
class Args:
    variant: str = "color_swap"
    """Which benchmark; `ttm world --list` shows all."""
    model: str = "small-siglip"
    """small-siglip, small-clip, or any other checkpoint."""
    matching: Literal["group", "global"] = "group"
    """Match within groups, or all images and captions at once."""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """Seeds of the order of the batches; all use the same data."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups per variant."""
    data_seed: int = 0
    """Another seed gives other groups of the same kind."""
    iterations: Annotated[int | None, option("N", "5")] = None
    """Number of iterations."""
    epochs: Annotated[int | None, option("N", "10")] = None
    """Epochs per iteration."""
    lr: Annotated[float | None, option("RATE", "2e-4")] = None
    """Learning rate."""
    tau_1: Annotated[float | None, option("TAU", "selects 20 %, or 50 % without groups")] = None
    """First threshold; without groups, the share of the pairs that is selected."""
    schedule: Annotated[Schedule | None, option("NAME", "linear")] = None
    """How the threshold moves: linear, cosine, constant or ascending."""
    oracle: Switch = False
    """Select exactly the correct matchings: an upper bound that uses the labels."""
    config: Annotated[Path | None, option("PATH", "ours")] = None
    """Take all settings from the config.json of an earlier run; other flags go on top."""
    dtype: Annotated[Dtype | None, option("float32|bfloat16", "float32")] = None
    """Type of the computation; parameters stay float32."""
    precision: Annotated[Precision | None, option("highest|high|default", "highest")] = None
    """Precision of float32 matrix products, which matters on TPUs and recent GPUs."""
    placement: Annotated[Placement | None, option("replicated|sharded", "replicated")] = None
    """Keep parameters and optimizer state on every device, or split them over the devices."""
    dry_run: Switch = False
    """Estimate time, memory and disk, and write nothing."""
    run_dir: Annotated[Path | None, option("PATH", "runs/small/VARIANT_MODEL_MATCHING")] = None
    """Where the runs go."""
    resume: Switch = True
    """Refuse a folder that already holds a run, instead of resuming it."""
    tensorboard: Switch = False
    """Write event files for TensorBoard into the run folder (extra `tensorboard`)."""
    wandb: Annotated[str | None, option("PROJECT")] = None
    """Log to this Weights & Biases project (extra `wandb`)."""
    hosts: Hosts = "auto"
    """Form one program with the same command on other hosts (TPU pod, SLURM, ...), or do not look
    for any."""
    quiet: Switch = False
    """Print the table only, no progress."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.small", __doc__)
    check_seeds(args.seeds)
    check_trackers(tensorboard=args.tensorboard, wandb=args.wandb)
    check_at_least("--groups", args.groups)
    check_at_least("--iterations", args.iterations)
    check_at_least("--epochs", args.epochs)
    check_at_least("--data-seed", args.data_seed, 0)
    join(args.hosts)
    from ttm_jax.report.tables.result_row import print_rows, world_row
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS

    config = settings(args)
    if args.dry_run:
        show_outlook(args, config)
        return
    name = f"{args.variant}_{args.model.replace('/', '_')}_{args.matching}"
    folder = working_folder(args.run_dir or Path("runs/small") / name)
    with Console("quiet" if args.quiet else "auto") as console:
        results = run_variant(
            args.variant,
            args.model,
            args.matching,
            config,
            args.seeds,
            folder,
            console,
            groups=given(args.groups, GROUPS),
            data_seed=args.data_seed,
            resume=args.resume,
            tensorboard=args.tensorboard,
            wandb=args.wandb,
        )
    row = world_row(args.variant, args.model, args.matching, results)
    print_rows([row], f"Test-Time Matching on {args.variant}")
    print(f"run folder and checkpoints: {shown(folder)}")


def settings(args: Args) -> TTMConfig:
    """Ours, or those of an earlier run, with what the flags change."""
    from ttm_jax.data import world
    from ttm_jax.small.settings import small_config

    config = small_config(world.find_variant(args.variant).shape, args.matching)
    if args.config is not None:
        config = saved_config(args.config, config.matching)
    names = ("iterations", "epochs", "lr", "tau_1", "schedule", "dtype", "precision", "placement")
    changes = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return replace(config, oracle=args.oracle or config.oracle, **changes)


def show_outlook(args: Args, config: TTMConfig) -> None:
    from ttm_jax.data import world
    from ttm_jax.engine.cost_estimate import estimate
    from ttm_jax.load import load_model
    from ttm_jax.report.adaptation import outlook_text
    from ttm_jax.small.settings import GROUPS

    dataset = world.make(args.variant, given(args.groups, GROUPS), args.data_seed)
    found = estimate(load_model(args.model), dataset, config)
    print(outlook_text(dataset, args.model, config, found, len(args.seeds)))


if __name__ == "__main__":
    run(main)
