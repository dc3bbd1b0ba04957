"""The whole of Test-Time Matching on a laptop, with nothing to download.

    ttm demo
    ttm demo --seeds 0 1 2 3 --model small-clip

A small pretrained model is adapted to two benchmarks of the procedural world: a 2x2 one (two
images, two captions) and a 1x4 one (one image, four captions). Raw is GroupScore; SimpleMatch reads
the same scores as a matching (GroupMatch); TTM adapts the model to its own confident matchings. No
step uses labels: they only measure the result. Everything is written to runs/demo; report.html
there shows every group before and after.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ttm_jax.cli.options import Switch, given, option, parse


@dataclass(frozen=True)
class Args:
    model: str = "small-siglip"
    """small-siglip, small-clip, or any other checkpoint."""
    variants: tuple[str, ...] = ("color_swap", "color_choice")
    """Benchmarks of the procedural world; `ttm world --list` shows all."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the order of the batches; all use the same data."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups per benchmark."""
    iterations: Annotated[int | None, option("N", "5")] = None
    """Iterations of Test-Time Matching."""
    epochs: Annotated[int | None, option("N", "10")] = None
    """Epochs per iteration."""
    run_dir: Path = Path("runs/demo")
    """Where everything goes. Rerun the same command to resume a demo that was stopped."""
    quiet: Switch = False
    """Print the table only, no progress."""


def main(argv: Sequence[str]) -> None:
    args = parse(Args, argv, "ttm demo", __doc__)
    from ttm_jax.config import check_seeds
    from ttm_jax.data import world
    from ttm_jax.files import write_json
    from ttm_jax.report.figures.curves import draw_curves
    from ttm_jax.report.page.page import write_page
    from ttm_jax.report.run_data import read_experiments
    from ttm_jax.report.tables.result_row import print_rows, world_row
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS, small_config

    check_seeds(*args.seeds)
    shapes = [world.find_variant(variant).shape for variant in args.variants]
    folders = {variant: args.run_dir / variant for variant in args.variants}
    rows = []
    with Console("quiet" if args.quiet else "auto") as console:
        for (variant, folder), shape in zip(folders.items(), shapes, strict=True):
            config = small_config(shape)
            config = replace(
                config,
                iterations=given(args.iterations, config.iterations),
                epochs=given(args.epochs, config.epochs),
            )
            console.say(f"{variant} ({shape[0]}x{shape[1]}), {args.model}, in {folder}")
            groups = given(args.groups, GROUPS)
            results = run_variant(
                variant, args.model, "group", config, args.seeds, folder, console, groups=groups
            )
            rows.append(world_row(variant, args.model, "group", results))
    figure = args.run_dir / "curves.png"
    draw_curves({v: [f / f"seed_{s}" for s in args.seeds] for v, f in folders.items()}, figure)
    write_json(args.run_dir / "summary.json", {"rows": [row.as_json() for row in rows]})
    print_rows(rows, "Test-Time Matching, no labels used")
    page = args.run_dir / "report.html"
    write_page(read_experiments(list(folders.values())), page)
    print(f"every group before and after, to open in a browser: {page}")
    print(f"curves and numbers: {figure}, {args.run_dir / 'summary.json'}")
    print(_next(args, folders[args.variants[0]] / f"seed_{args.seeds[0]}"))


def _next(args: Args, run: Path) -> str:
    """What to type next: look inside, and the same with data of one's own."""
    return "\n".join(
        (
            "What next?",
            f"  ttm inspect {run}   what is in a checkpoint",
            "  ttm world --variant left_right --groups 60 --out my_data   or a folder of your own:",
            f"  ttm diagnose --model {args.model} --data my_data   does the model know anything?",
            f"  ttm adapt --model {args.model} --data my_data   matchings and an adapted model",
        )
    )
