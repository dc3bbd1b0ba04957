"""Write a benchmark of the procedural world as a folder of PNG files and `groups.jsonl`.

    ttm world --list
    ttm world --variant color_swap --groups 200 --out data/color_swap

The folder has the same layout as your own data (docs/own_data.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.data import world
from ttm_jax.data.folder_reader import write_folder
from ttm_jax.data.world.preview import contact_sheet
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Args:
    variant: str = "color_swap"
    """Which benchmark; `--list` shows all."""
    split: str = "test"
    """`train` looks like the images that the small models were trained on; `test` is shifted."""
    groups: int = 200
    """How many groups; a larger number keeps the first groups the same."""
    seed: int = 0
    """Another seed gives other groups."""
    shift: float = 1.0
    """How far the test split is from the training images: 0 not at all, 1 moderate, 2 strong."""
    size: int = world.DISPLAY_SIZE
    """Width and height of the images in pixels."""
    out: Annotated[Path | None, option("FOLDER")] = None
    """Folder to write."""
    ungrouped: Switch = False
    """Write two plain lists, `images.jsonl` and `captions.jsonl`, instead of groups."""
    overwrite: Switch = False
    """Replace the folder if it already holds such data."""
    preview: Annotated[Path | None, option("PATH.png")] = None
    """Draw the first 12 groups with their captions into this PNG file."""
    list: Switch = False
    """List the variants and exit."""


def main(argv: Sequence[str]) -> None:
    args = parse(Args, argv, "ttm world", __doc__)
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
