"""What does a model know about your data? An estimate without labels, before any training.

    ttm diagnose --model google/siglip-base-patch16-224 --data my_data
    ttm diagnose --model small-siglip --data my_data --figure margins.png

Each group is compared with decoys: its captions with the images of other groups. A decoy has no
right matching, so its margin shows the noise of the model. Nothing is trained or written. The data
has groups (docs/without_labels.md explains the estimates and their limits).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ttm_jax.bucket_storage import fetched
from ttm_jax.cli.about_model import say_about
from ttm_jax.cli.options import Switch, given, option, parse
from ttm_jax.config import Prior, check_seeds
from ttm_jax.data.own_data import read_own_data
from ttm_jax.engine.recommended_settings import own_data_config
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Args:
    model: str
    """Hub id (google/siglip-base-patch16-224), folder, .npz, run, or small-siglip (drawings)."""
    data: Path
    """Folder with groups.jsonl, or a table with groups."""
    coverage: Annotated[float | None, option("SHARE", "0.2")] = None
    """Share of the groups that would be selected first."""
    prior: Prior = "none"
    """What every caption scores anyway, with images of other groups: none leaves the scores as they
    are, subtract removes it, standardise also divides by its spread."""
    draws: int = 10
    """Decoys per group."""
    seed: int = 0
    """Which groups serve as decoys."""
    figure: Annotated[Path | None, option("PATH.png")] = None
    """Draw the margins of groups and decoys."""
    revision: Annotated[str | None, option("REVISION", "the main branch")] = None
    """Branch, tag or commit of a hub model."""
    files_from: Annotated[str | None, option("SOURCE")] = None
    """Hugging Face folder or hub id that provides the tokenizer for an .npz."""
    json: Switch = False
    """Print one JSON object instead of text."""


def main(argv: Sequence[str]) -> None:
    args = parse(Args, argv, "ttm diagnose", __doc__)
    check_seeds(args.seed)
    if args.draws < 1:
        raise InputError(f"--draws is {args.draws}; expected 1 or more")
    data = read_own_data(fetched(args.data), None)
    if not data.grouped:
        raise InputError(f"{args.data} has no groups; a diagnosis compares groups with decoys")
    from dataclasses import replace

    from ttm_jax.engine.diagnosis import diagnose
    from ttm_jax.load import load_model
    from ttm_jax.report.diagnosis import as_json, as_text, draw_margins
    from ttm_jax.scorers.contrastive.model import ContrastiveModel

    model = load_model(args.model, revision=args.revision, files_from=args.files_from)
    shapes = [block.shape for block in data.dataset.blocks]
    generative = not isinstance(model, ContrastiveModel)
    if isinstance(model, ContrastiveModel):
        say_about(args.model, model.advice)
    config = own_data_config(shapes, "group", generative=generative)
    config = replace(config, prior=args.prior, coverage=given(args.coverage, config.coverage))
    found = diagnose(model, data.dataset, config, draws=args.draws, seed=args.seed)
    print(as_json(found) if args.json else as_text(found, data.dataset, args.model))
    if args.figure is not None:
        draw_margins(found, f"{data.dataset.name}, {args.model}", args.figure)
