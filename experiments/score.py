"""Score images against captions with any checkpoint.

    python -m experiments.score --model google/siglip-base-patch16-224 \\
        --images cat.jpg dog.jpg --captions "a photo of a cat" "a photo of a dog"
    python -m experiments.score --model FOLDER --images *.png --captions-file captions.txt \\
        --out scores.npz
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from ttm_jax.cli import run
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Args:
    images: tuple[Path, ...]
    """Image files."""
    model: str
    """A hub id, a Hugging Face folder, a big_vision .npz, or a run folder."""
    captions: tuple[str, ...] = ()
    """Captions, each in quotes."""
    captions_file: Path | None = None
    """A text file with a caption a line, instead of --captions."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    files_from: str | None = None
    """Where an .npz finds its tokenizer: a Hugging Face folder or hub id."""
    out: Path | None = None
    """Write the logits to this .npz file, for `experiments.evaluate_scores --global`."""
    json: bool = False
    """Print one JSON object instead of a table."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    captions = args.captions
    if args.captions_file is not None:
        if captions:
            raise InputError("give --captions or --captions-file, not both")
        captions = tuple(read_captions(args.captions_file))
    if not captions or not args.images:
        raise InputError("nothing to score: give --images and --captions")
    from ttm_jax.load import load_model
    from ttm_jax.report.logit_table import print_logits, write_logits

    model = load_model(args.model, revision=args.revision, files_from=args.files_from)
    scores = model.score(args.images, captions)
    if args.out is not None:
        write_logits(args.out, scores, args.images, captions)
    print_logits(scores, args.images, captions, as_json=args.json)


def read_captions(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    return [line for line in lines if line.strip()]


if __name__ == "__main__":
    run(main)
