"""Train parts of a small model: what each costs in quality, one column per part.

    python -m experiments.small_parts
    python -m experiments.small_parts --parts all last:1 lora --seeds 0 1 2 3

Runs or resumes Test-Time Matching for each variant and each value of `train` (see docs/ttm.md), and
writes parts.md and parts.json beside the runs.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from experiments._small_ways import compare_ways
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, option, parse

TWO_BY_TWO = (
    "color_swap",
    "texture_swap",
    "size_swap",
    "left_right",
    "above_below",
    "front_behind",
)


@dataclass(frozen=True)
class Args:
    models: tuple[str, ...] = ("small-siglip",)
    """small-siglip, small-clip, or any other checkpoint."""
    variants: tuple[str, ...] = TWO_BY_TWO
    """Benchmarks; `ttm world --list` shows all."""
    parts: tuple[str, ...] = ("all", "last:1", "image", "text", "heads", "lora")
    """What is trained, one column each."""
    seeds: tuple[int, ...] = (0, 1)
    """Seeds of the order of the batches; all use the same data."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups per variant."""
    iterations: Annotated[int | None, option("N", "5")] = None
    """Number of iterations."""
    run_dir: Path = Path("runs/small_parts")
    """Where everything goes."""
    quiet: Switch = False
    """Print the table only, no progress."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.small_parts", __doc__)
    compare_ways(
        lambda config: {part: replace(config, train=part) for part in args.parts},
        models=args.models,
        variants=args.variants,
        seeds=args.seeds,
        groups=args.groups,
        iterations=args.iterations,
        run_dir=args.run_dir,
        name="parts",
        quiet=args.quiet,
    )


if __name__ == "__main__":
    run(main)
