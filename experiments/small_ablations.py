"""The paper's ablations with a small model: schedules, oracle, SimpleMatch's overfit.

    python -m experiments.small_ablations
    python -m experiments.small_ablations --variants color_swap --model small-clip

For each variant: Test-Time Matching with a threshold that falls, stays or rises, with the right
matchings instead of the confident ones (the skyline, which uses labels), and how far GroupScore
follows when the model is overfitted to its own first matchings. Writes ablations.md and
ablations.json beside the runs, which are resumed.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from ttm_jax.cli import run


@dataclass(frozen=True)
class Args:
    model: str = "small-siglip"
    """small-siglip, small-clip, or any other checkpoint."""
    variants: tuple[str, ...] = ("color_swap", "front_behind")
    """k x k variants; `python -m experiments.make_world --list` shows all."""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """Order of the batches; the data is the same for all."""
    groups: int | None = None
    """Fewer or more groups."""
    iterations: int | None = None
    """Fewer or more iterations."""
    run_dir: Path = Path("runs/small_ablations")
    """Where everything goes."""
    quiet: bool = False
    """No progress, only the table."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    from configs.small import GROUPS, small_config
    from experiments._small import run_variant
    from ttm_jax.console import Console
    from ttm_jax.data import world
    from ttm_jax.files import write_json, write_text
    from ttm_jax.load import load_model
    from ttm_jax.report.ablations import SmallAblation, ablation_table
    from ttm_jax.simple_match import simple_match

    groups = args.groups or GROUPS
    done = []
    with Console("quiet" if args.quiet else "plain") as console:
        for variant in args.variants:
            config = small_config(world.find_variant(variant).shape)
            config = replace(config, iterations=args.iterations or config.iterations)
            ways = {
                "linear": config,
                "cosine": replace(config, schedule="cosine"),
                "constant": replace(config, schedule="constant"),
                "ascending": replace(config, schedule="ascending"),
                "oracle": replace(config, oracle=True),
            }
            folder = args.run_dir / f"{variant}_{args.model.replace('/', '_')}"
            rows = {
                way: run_variant(
                    variant, args.model, "group", changed, args.seeds, folder / way, console,
                    groups=groups,
                )
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
