"""Every variant of the procedural world with the small models: the table in the README.

    python -m experiments.small_table
    python -m experiments.small_table --models small-siglip --variants color_swap left_right

Runs or resumes each variant with four seeds, groups and one global assignment, and writes
runs/small/table.md and table.json. Long: see the README for how long it took.
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
    models: tuple[str, ...] = ("small-siglip", "small-clip")
    """Checkpoints."""
    variants: Annotated[tuple[str, ...], option("NAME [NAME ...]", "all")] = ()
    """Benchmarks; `ttm world --list` shows all."""
    global_variants: tuple[str, ...] = ("color_swap", "left_right", "replace_shape")
    """Variants that are also matched globally, without their groups."""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """Seeds of the order of the batches; all use the same data."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups per variant."""
    run_dir: Path = Path("runs/small")
    """Where everything goes."""
    hosts: Hosts = "auto"
    """Form one program with the same command on other hosts (TPU pod, SLURM, ...), or do not look
    for any."""
    quiet: Switch = False
    """Print the table only, no progress."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.small_table", __doc__)
    check_seeds(args.seeds)
    check_at_least("--groups", args.groups)
    from ttm_jax.config import Matching

    join(args.hosts)
    args = replace(args, run_dir=working_folder(args.run_dir))
    from ttm_jax.data import world
    from ttm_jax.hosts.shared_folder import write_json, write_text
    from ttm_jax.report.tables.result_row import markdown, print_rows, world_row
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS, small_config

    variants = args.variants or tuple(world.VARIANTS)
    kinds: list[tuple[str, Matching]] = [(variant, "group") for variant in variants]
    kinds += [(variant, "global") for variant in args.global_variants]
    rows = []
    with Console("quiet" if args.quiet else "plain") as console:
        for model in args.models:
            for variant, matching in kinds:
                config = small_config(world.find_variant(variant).shape, matching)
                folder = args.run_dir / f"{variant}_{model.replace('/', '_')}_{matching}"
                results = run_variant(
                    variant, model, matching, config, args.seeds, folder, console,
                    groups=given(args.groups, GROUPS),
                )  # fmt: skip
                rows.append(world_row(variant, model, matching, results))
                write_text(args.run_dir / "table.md", markdown(rows))
                write_json(args.run_dir / "table.json", {"rows": [r.as_json() for r in rows]})
    print_rows(rows, "Test-Time Matching on the procedural world")


if __name__ == "__main__":
    run(main)
