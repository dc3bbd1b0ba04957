"""Test-Time Matching on your own images and captions: matchings and an adapted model come out.

    python -m experiments.adapt --model google/siglip-base-patch16-224 --data my_data --dry-run
    python -m experiments.adapt --model google/siglip-base-patch16-224 --data my_data

`my_data` has images and groups.jsonl, or images.jsonl and captions.jsonl (docs/own_data.md). Labels
are not needed; where there are any, they are reported and never used. In the folder of --out:
matchings.jsonl, model/ (for transformers and for us), summary.json, and run/ with everything else.
The same command goes on where it was stopped.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro

from configs.own_data import own_data_config
from ttm_jax.cli import run
from ttm_jax.config import Matching, Schedule, Train, TTMConfig
from ttm_jax.data.folder import read_folder
from ttm_jax.data.folder_writer import IMAGES
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Args:
    model: str
    """A hub id, a Hugging Face folder, a big_vision .npz, or a run of ours."""
    data: Path
    """The folder with your images and lists."""
    out: Path | None = None
    """Where the results go (default: runs/adapt_NAME_OF_THE_DATA)."""
    dry_run: bool = False
    """Say what there is, which threshold it starts with and what it would take; write nothing."""
    matching: Literal["auto", "group", "global"] = "auto"
    """Within groups, or all images and captions at once; auto: as the data is."""
    iterations: int | None = None
    """How often matchings are made and learned (default 10; 3 for generative models)."""
    epochs: int | None = None
    """Passes over the selected groups in an iteration (default 20; 10)."""
    lr: float | None = None
    """Learning rate (default 1e-5; 4e-5). The paper's lie between 1e-5 and 6e-5."""
    batch_groups: int | None = None
    """Groups in a batch (default 50; 100 if every group has one image; 16)."""
    coverage: float | None = None
    """Share of the groups that is selected at first (default 0.2; without groups 0.5)."""
    schedule: Schedule | None = None
    """How the threshold falls: linear or cosine (constant and ascending are for comparison)."""
    train: Train | None = None
    """What is trained (default all): all, image, text, heads or lora."""
    augment: bool = False
    """Random crops while training; not where left and right, or the edge, matter."""
    seed: int = 0
    """Order of the batches."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    files_from: str | None = None
    """Where an .npz finds its tokenizer: a Hugging Face folder or hub id."""
    resume: bool = True
    """Take up a run that was stopped; --no-resume refuses a folder that holds one."""
    tensorboard: bool = False
    """Write event files for TensorBoard (extra `tensorboard`)."""
    wandb: str | None = None
    """Log to this Weights & Biases project (extra `wandb`)."""
    quiet: bool = False
    """No progress, only the result."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    if args.seed < 0:
        raise InputError(f"--seed is {args.seed}; expected 0 or more")
    dataset = read_folder(args.data)
    settings(args, dataset, generative=False)  # mistakes in the flags come out before the model
    from ttm_jax.load import load_model
    from ttm_jax.scorers.contrastive import ContrastiveModel

    model = load_model(args.model, revision=args.revision, files_from=args.files_from)
    config = settings(args, dataset, generative=not isinstance(model, ContrastiveModel))
    if args.dry_run:
        from ttm_jax.estimate import estimate
        from ttm_jax.report.adaptation import outlook_text

        print(outlook_text(dataset, args.model, config, estimate(model, dataset, config)))
        return
    adapt(args, model, dataset, config)


def settings(args: Args, dataset: GroupedDataset, *, generative: bool) -> TTMConfig:
    """The defaults for such data, with what the user wants otherwise."""
    listed = (args.data / IMAGES).exists()
    matching: Matching = "global" if listed or args.matching == "global" else "group"
    if listed and args.matching == "group":
        raise InputError(f"{args.data} has no groups ({IMAGES}); --matching group needs some")
    shapes = [block.shape for block in dataset.blocks]
    config = own_data_config(shapes, matching, generative=generative)
    names = ("iterations", "epochs", "lr", "batch_groups", "coverage", "schedule", "train")
    changes = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return replace(config, augment=args.augment, **changes)


def adapt(args: Args, model: Any, dataset: GroupedDataset, config: TTMConfig) -> None:
    from ttm_jax.console import Console
    from ttm_jax.report.adaptation import result_text, write_results
    from ttm_jax.trackers import open_trackers
    from ttm_jax.ttm import run_ttm

    out = args.out or Path("runs") / f"adapt_{dataset.name}"
    trackers = open_trackers(out, dataset.name, tensorboard=args.tensorboard, wandb=args.wandb)
    try:
        with Console("quiet" if args.quiet else "auto") as console:
            result = run_ttm(
                model,
                dataset,
                config,
                out / "run",
                args.seed,
                resume=args.resume,
                console=console,
                trackers=trackers,
            )
    finally:
        for tracker in trackers:
            tracker.close()
    print(result_text(write_results(out, args.data, dataset, config, result), out))


if __name__ == "__main__":
    run(main)
