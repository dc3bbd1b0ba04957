"""What bfloat16 does to Test-Time Matching: every variant with the small models, three ways.

    python -m experiments.small_precision
    python -m experiments.small_precision --variants color_swap --seeds 0 1

Computes everything in float32, only the training steps in bfloat16 (`train_dtype`), or everything
in bfloat16, scores and thresholds too (`dtype`). Writes precision.md and precision.json beside the
runs. Parameters are float32 in all three.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from experiments._small_ways import compare_ways
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.config import TTMConfig


@dataclass(frozen=True)
class Args:
    models: tuple[str, ...] = ("small-siglip", "small-clip")
    """Checkpoints."""
    variants: Annotated[tuple[str, ...], option("NAME [NAME ...]", "all")] = ()
    """Benchmarks; `ttm world --list` shows all."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the order of the batches; all use the same data."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups per variant."""
    iterations: Annotated[int | None, option("N", "5")] = None
    """Number of iterations."""
    run_dir: Path = Path("runs/small_precision")
    """Where everything goes."""
    quiet: Switch = False
    """Print the table only, no progress."""


def ways(config: TTMConfig) -> dict[str, TTMConfig]:
    """The three columns."""
    return {
        "float32": config,
        "bfloat16 training": replace(config, train_dtype="bfloat16"),
        "bfloat16": replace(config, dtype="bfloat16"),
    }


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.small_precision", __doc__)
    from ttm_jax.data import world

    compare_ways(
        ways,
        models=args.models,
        variants=args.variants or tuple(world.VARIANTS),
        seeds=args.seeds,
        groups=args.groups,
        iterations=args.iterations,
        run_dir=args.run_dir,
        name="precision",
        quiet=args.quiet,
    )


if __name__ == "__main__":
    run(main)
