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

from experiments._checks import check_at_least, check_seeds
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, given, option, parse

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
    model: str = "small-siglip"
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
    check_seeds(args.seeds)
    check_at_least("--groups", args.groups)
    check_at_least("--iterations", args.iterations)
    from ttm_jax.data import world
    from ttm_jax.files import write_json, write_text
    from ttm_jax.report.tables.parts import PartsRow, parts_table
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS, small_config

    groups = given(args.groups, GROUPS)
    rows: list[PartsRow] = []
    with Console("quiet" if args.quiet else "plain") as console:
        for variant in args.variants:
            config = small_config(world.find_variant(variant).shape)
            config = replace(config, iterations=given(args.iterations, config.iterations))
            folder = args.run_dir / f"{variant}_{args.model.replace('/', '_')}"
            results = {
                part: run_variant(
                    variant, args.model, "group", replace(config, train=part), args.seeds,
                    folder / part.replace(":", "_"), console, groups=groups,
                )
                for part in args.parts
            }  # fmt: skip
            rows.append(PartsRow.of(variant, results))
            write_text(args.run_dir / "parts.md", parts_table(rows))
            write_json(args.run_dir / "parts.json", {"rows": [row.as_json() for row in rows]})
    print(parts_table(rows), end="")


if __name__ == "__main__":
    run(main)
