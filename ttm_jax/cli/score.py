"""Score images against captions with any checkpoint.

    ttm score --model google/siglip-base-patch16-224 \\
        --images cat.jpg dog.jpg --captions "a photo of a cat" "a photo of a dog"
    ttm score --model FOLDER --images photos --captions-file captions.txt --top 5
    ttm score --model FOLDER --images *.png --captions-file captions.txt \\
        --out scores.npz
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ttm_jax.cli.about_model import say_about
from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.data.caption_tables import CaptionRow, is_table_name, read_caption_table
from ttm_jax.data.own_data import expand_images, truth_of_images
from ttm_jax.errors import InputError
from ttm_jax.report.tables.logits import (
    Kind,
    check_format,
    print_best,
    print_logits,
    write_logits,
)


@dataclass(frozen=True)
class Args:
    images: tuple[Path, ...]
    """Image files, or folders of them."""
    model: str
    """Hub id (google/siglip-base-patch16-224), folder, .npz, run, or small-siglip (drawings)."""
    captions: Annotated[tuple[str, ...], option("TEXT [TEXT ...]")] = ()
    """Captions, each in quotes; or a file of them, as for --captions-file."""
    captions_file: Annotated[Path | None, option("PATH")] = None
    """One caption per line (.txt), or a table with a column `caption` (.csv, .tsv, .parquet)."""
    revision: Annotated[str | None, option("REVISION", "the main branch")] = None
    """Branch, tag or commit of a hub model."""
    files_from: Annotated[str | None, option("SOURCE")] = None
    """Hugging Face folder or hub id that provides the tokenizer for an .npz."""
    out: Annotated[Path | None, option("PATH")] = None
    """Write all logits to this file: .npz (for `ttm evaluate`), .csv or .json."""
    top: int = 3
    """How many captions to show per image, the best first."""
    json: Switch = False
    """Print one JSON object instead of a table."""


def main(argv: Sequence[str]) -> None:
    args = parse(Args, argv, "ttm score", __doc__)
    captions, rows, file = list(args.captions), list[CaptionRow](), args.captions_file
    if file is None and len(captions) == 1 and is_table_name(captions[0]):
        file = Path(captions.pop())  # as `ttm adapt` takes it
    if file is not None:
        if captions:
            raise InputError("give --captions or --captions-file, not both")
        rows = read_caption_table(file)
        captions = [row.caption for row in rows]
    if not captions or not args.images:
        raise InputError("nothing to score: give --images and --captions")
    if args.top < 1:
        raise InputError(f"--top is {args.top}; expected 1 or more")
    if args.out is not None:
        check_format(args.out)
    images = expand_images(args.images)
    from ttm_jax.load import load_model
    from ttm_jax.scorers.contrastive.model import ContrastiveModel

    model = load_model(args.model, revision=args.revision, files_from=args.files_from)
    kind: Kind = "vqa"
    if isinstance(model, ContrastiveModel):
        kind = model.family
        say_about(args.model, model.advice)
    scores = model.score(images, captions)
    if args.out is not None:
        truth = truth_of_images(images, rows, args.images)
        listed = not any(path.is_dir() for path in args.images)
        write_logits(args.out, scores, images, captions, kind, truth, listed=listed)
    if args.json:
        print_logits(scores, images, captions)
    else:
        print_best(scores, images, captions, kind, args.top)
    if args.out is not None and not args.json:
        print(f"all logits: {args.out}")
