"""Every variant of the procedural world with the small models: the table in the README.

    python -m experiments.small_table
    python -m experiments.small_table --models small-siglip --variants color_swap left_right

Runs or resumes each variant with four seeds, groups and one global assignment, and writes
runs/small/table.md and table.json. Long: see the README for how long it took.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from ttm_jax.cli import run


@dataclass(frozen=True)
class Args:
    models: tuple[str, ...] = ("small-siglip", "small-clip")
    """Checkpoints."""
    variants: tuple[str, ...] = ()
    """Default: all."""
    global_variants: tuple[str, ...] = ("color_swap", "left_right", "replace_shape")
    """Variants whose groups are also dissolved into one assignment."""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """Order of the batches; the data is the same for all."""
    groups: int | None = None
    """Fewer or more groups."""
    run_dir: Path = Path("runs/small")
    """Where everything goes."""
    quiet: bool = False
    """No progress, only the table."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    from configs.small import GROUPS, small_config
    from experiments._small import run_variant
    from ttm_jax.config import Matching
    from ttm_jax.console import Console
    from ttm_jax.data import world
    from ttm_jax.files import write_json, write_text
    from ttm_jax.report.results import markdown, print_rows

    variants = args.variants or tuple(world.VARIANTS)
    kinds: list[tuple[str, Matching]] = [(variant, "group") for variant in variants]
    kinds += [(variant, "global") for variant in args.global_variants]
    rows = []
    with Console("quiet" if args.quiet else "plain") as console:
        for model in args.models:
            for variant, matching in kinds:
                config = small_config(world.find_variant(variant).shape, matching)
                folder = args.run_dir / f"{variant}_{model.replace('/', '_')}_{matching}"
                row = run_variant(
                    variant, model, matching, config, args.seeds, folder, console,
                    groups=args.groups or GROUPS,
                )  # fmt: skip
                rows.append(row)
                write_text(args.run_dir / "table.md", markdown(rows))
                write_json(args.run_dir / "table.json", {"rows": [r.as_json() for r in rows]})
    print_rows(rows, "Test-Time Matching on the procedural world")


if __name__ == "__main__":
    run(main)
