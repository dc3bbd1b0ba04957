"""The paper's ablations with a small model: schedules, oracle, SimpleMatch's overfit.

    python -m experiments.small_ablations
    python -m experiments.small_ablations --variants color_swap --model small-clip

For each variant: Test-Time Matching with a threshold that falls, stays or rises, with the right
matchings instead of the confident ones (the skyline, which uses labels), and how far GroupScore
follows when the model is overfitted to its own first matchings. Writes ablations.md and
ablations.json beside the runs, which are resumed.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from experiments._checks import check_at_least, check_seeds
from ttm_jax.bucket_storage import working_folder
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, given, option, parse
from ttm_jax.hosts.join import Hosts, join


@dataclass(frozen=True)
class Args:
    model: str = "small-siglip"
    """small-siglip, small-clip, or any other checkpoint."""
    variants: tuple[str, ...] = ("color_swap", "front_behind")
    """k x k variants; `ttm world --list` shows all."""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """Seeds of the order of the batches; all use the same data."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups per variant."""
    iterations: Annotated[int | None, option("N", "5")] = None
    """Number of iterations."""
    run_dir: Path = Path("runs/small_ablations")
    """Where everything goes."""
    hosts: Hosts = "auto"
    """Form one program with the same command on other hosts (TPU pod, SLURM, ...), or do not look
    for any."""
    quiet: Switch = False
    """Print the table only, no progress."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.small_ablations", __doc__)
    check_seeds(args.seeds)
    check_at_least("--groups", args.groups)
    check_at_least("--iterations", args.iterations)
    join(args.hosts)
    args = replace(args, run_dir=working_folder(args.run_dir))
    from ttm_jax.data import world
    from ttm_jax.engine.simple_match import simple_match
    from ttm_jax.hosts.shared_folder import write_json, write_text
    from ttm_jax.load import load_model
    from ttm_jax.report.tables.ablations import SmallAblation, ablation_table
    from ttm_jax.report.tables.result_row import world_row
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS, small_config

    groups = given(args.groups, GROUPS)
    done = []
    with Console("quiet" if args.quiet else "plain") as console:
        for variant in args.variants:
            config = small_config(world.find_variant(variant).shape)
            config = replace(config, iterations=given(args.iterations, config.iterations))
            ways = {
                "linear": config,
                "cosine": replace(config, schedule="cosine"),
                "constant": replace(config, schedule="constant"),
                "ascending": replace(config, schedule="ascending"),
                "oracle": replace(config, oracle=True),
            }
            folder = args.run_dir / f"{variant}_{args.model.replace('/', '_')}"
            rows = {
                way: world_row(variant, args.model, "group", run_variant(
                    variant, args.model, "group", changed, args.seeds, folder / way, console,
                    groups=groups,
                ))
                for way, changed in ways.items()
            }  # fmt: skip
            overfit = simple_match(
                load_model(args.model), world.make(variant, groups, 0), config, console=console
            )
            done.append(SmallAblation.of(rows, overfit))
            write_text(args.run_dir / "ablations.md", ablation_table(done))
            write_json(args.run_dir / "ablations.json", {"rows": [x.as_json() for x in done]})
    print(ablation_table(done), end="")


if __name__ == "__main__":
    run(main)
