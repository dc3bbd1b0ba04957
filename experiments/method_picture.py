"""Draw the method from a real run: docs/images/method.png.

    python -m experiments.method_picture
    python -m experiments.method_picture --variant size_swap --out size_swap.png

Runs or resumes Test-Time Matching with a small model on a 2x2 variant of the procedural world, and
draws one group with its scores before and after, what was selected, and the scores over time.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from experiments._checks import check_at_least
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, given, option, parse


@dataclass(frozen=True)
class Args:
    variant: str = "color_swap"
    """A 2x2 benchmark of the procedural world."""
    model: str = "small-siglip"
    """small-siglip, small-clip, or any other checkpoint."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups."""
    run_dir: Path = Path("runs/method_picture")
    """Where the run goes."""
    out: Path = Path("docs/images/method.png")
    """The picture: .png, .svg or .pdf."""
    quiet: Switch = False
    """No progress."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.method_picture", __doc__)
    check_at_least("--groups", args.groups)
    from ttm_jax.data import world
    from ttm_jax.errors import InputError
    from ttm_jax.report.figures.method import draw_method
    from ttm_jax.report.run_data import read_run
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS, small_config

    shape = world.find_variant(args.variant).shape
    if shape != (2, 2):
        raise InputError(f"--variant {args.variant} has {shape[0]}x{shape[1]} groups; expected 2x2")
    folder = args.run_dir / f"{args.variant}_{args.model.replace('/', '_')}"
    with Console("quiet" if args.quiet else "auto") as console:
        run_variant(
            args.variant, args.model, "group", small_config(shape), (0,), folder, console,
            groups=given(args.groups, GROUPS),
        )  # fmt: skip
    draw_method(read_run(folder / "seed_0"), args.out)
    print(args.out)


if __name__ == "__main__":
    run(main)
