"""The whole of Test-Time Matching on a laptop, with nothing to download.

    python -m experiments.demo
    python -m experiments.demo --seeds 0 1 2 3 --model small-clip

A small pretrained model meets two benchmarks of the procedural world: a 2x2 one (two pictures, two
captions) and a 1x4 one (a picture, four captions). Raw is GroupScore, SimpleMatch reads the same
scores as a matching (GroupMatch), TTM adapts the model to its own confident matchings. No label is
used for any of it; labels only say how well it went. Everything goes to runs/demo.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from ttm_jax.cli import run


@dataclass(frozen=True)
class Args:
    model: str = "small-siglip"
    """small-siglip, small-clip, or any other checkpoint."""
    variants: tuple[str, ...] = ("color_swap", "color_choice")
    """`python -m experiments.make_world --list` shows all."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Order of the batches; the data is the same for all."""
    groups: int | None = None
    """Fewer or more groups."""
    iterations: int | None = None
    """Fewer or more iterations."""
    epochs: int | None = None
    """Fewer or more epochs an iteration."""
    run_dir: Path = Path("runs/demo")
    """Where everything goes. A demo that was stopped goes on from where it was."""
    quiet: bool = False
    """No progress, only the table."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    from configs.small import GROUPS, small_config
    from experiments._small import run_variant
    from ttm_jax.console import Console
    from ttm_jax.data import world
    from ttm_jax.files import write_json
    from ttm_jax.report.curves import draw_curves
    from ttm_jax.report.results import print_rows

    shapes = [world.find_variant(variant).shape for variant in args.variants]
    folders = {variant: args.run_dir / variant for variant in args.variants}
    rows = []
    with Console("quiet" if args.quiet else "auto") as console:
        for (variant, folder), shape in zip(folders.items(), shapes, strict=True):
            config = small_config(shape)
            config = replace(
                config,
                iterations=args.iterations or config.iterations,
                epochs=args.epochs or config.epochs,
            )
            console.say(f"{variant} ({shape[0]}x{shape[1]}), {args.model}, in {folder}")
            groups = args.groups or GROUPS
            rows.append(
                run_variant(
                    variant, args.model, "group", config, args.seeds, folder, console, groups=groups
                )
            )
    figure = args.run_dir / "curves.png"
    draw_curves({v: [f / f"seed_{s}" for s in args.seeds] for v, f in folders.items()}, figure)
    write_json(args.run_dir / "summary.json", {"rows": [row.as_json() for row in rows]})
    print_rows(rows, "Test-Time Matching, no labels used")
    print(f"curves over the iterations: {figure}")
    print(f"numbers: {args.run_dir / 'summary.json'}")
    print("run folders with checkpoints: " + ", ".join(map(str, folders.values())))
    print(f"a page to look at: python -m experiments.report {args.run_dir}/*/ -o report.html")


if __name__ == "__main__":
    run(main)
