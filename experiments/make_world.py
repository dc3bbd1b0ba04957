"""Write a benchmark of the procedural world as a folder of PNG files and `groups.jsonl`.

    python -m experiments.make_world --list
    python -m experiments.make_world --variant color_swap --groups 200 --out data/color_swap

The folder has the layout of your own data (docs/own_data.md) and is read the same way.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from ttm_jax.cli import run
from ttm_jax.data import world
from ttm_jax.data.folder import write_folder
from ttm_jax.data.world.preview import contact_sheet
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Args:
    variant: str = "color_swap"
    """What the groups ask; `--list` shows all."""
    split: str = "test"
    """`train` looks like the pictures that the small models learned from, `test` is shifted."""
    groups: int = 200
    """How many groups; the first ones are the same whatever the number."""
    seed: int = 0
    """Another seed gives other groups."""
    shift: float = 1.0
    """How far the test split is from the training pictures: 0 not at all, 1 moderate, 2 strong."""
    size: int = world.DISPLAY_SIZE
    """Pixels on each side of a picture."""
    out: Path | None = None
    """The folder to write."""
    ungrouped: bool = False
    """Write two plain lists, `images.jsonl` and `captions.jsonl`, instead of groups."""
    overwrite: bool = False
    """Replace the folder if it already holds such data."""
    preview: Path | None = None
    """Also (or only) draw the first 12 groups with their captions into this PNG file."""
    list: bool = False
    """Show the variants and stop."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    if args.list:
        for name, variant in world.VARIANTS.items():
            images, captions = variant.shape
            print(f"{name:16} {images}x{captions}  {variant.about}")
        return
    if args.out is None and args.preview is None:
        raise InputError("nothing to write; give --out FOLDER, --preview FILE.png, or --list")
    dataset = world.make(args.variant, args.groups, args.seed, args.shift, args.size, args.split)
    if args.out is not None:
        data = dataset.ungrouped() if args.ungrouped else dataset
        write_folder(data, args.out, grouped=not args.ungrouped, overwrite=args.overwrite)
        print(f"{args.out}: {len(dataset)} groups, {len(dataset.images)} images")
    if args.preview is not None:
        args.preview.parent.mkdir(parents=True, exist_ok=True)
        contact_sheet(dataset.limit(12)).save(args.preview, "PNG")
        print(f"{args.preview}: the first {min(12, len(dataset))} groups")


if __name__ == "__main__":
    run(main)
