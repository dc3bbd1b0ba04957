"""Test-Time Matching on your own images and captions: writes the matchings and an adapted model.

    ttm adapt --model google/siglip-base-patch16-224 --data photos --captions captions.csv
    ttm adapt --model google/siglip-base-patch16-224 --data my_data --dry-run

The data is a folder of images with captions.csv or captions.txt, a table or Parquet file with
columns for images and captions, or a folder with groups.jsonl, or with images.jsonl and
captions.jsonl (docs/own_data.md). Labels are not needed; if there are any, they are reported and
never used. The --out folder gets matchings.csv and .jsonl, model/ (a Hugging Face folder),
report.html, summary.json, and run/ with everything else. Rerun the same command to resume.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ttm_jax.bucket_storage import fetched, working_folder
from ttm_jax.cli.about_model import say_about
from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.config import Dtype, Matching, Precision, Prior, Schedule, TTMConfig, check_seeds
from ttm_jax.data.own_data import OwnData, read_own_data
from ttm_jax.engine.devices import check_device
from ttm_jax.engine.recommended_settings import own_data_config, rate_is_known, with_advice
from ttm_jax.errors import InputError
from ttm_jax.hosts.join import Hosts, join
from ttm_jax.inputs.model_advice import Advice
from ttm_jax.plain_text import for_reading
from ttm_jax.report.dataset_line import describe
from ttm_jax.runs.trackers import check_trackers

if TYPE_CHECKING:
    from ttm_jax.engine.result import TTMResult
    from ttm_jax.runs.console import Console
    from ttm_jax.scorers.contrastive.model import ContrastiveModel
    from ttm_jax.scorers.vqa.model import VQAModel


@dataclass(frozen=True)
class Args:
    model: str
    """Hub id (google/siglip-base-patch16-224), folder, .npz, run, or small-siglip (drawings)."""
    data: Path
    """Folder of images, or of lists; or a table (.csv, .tsv, .parquet)."""
    captions: Annotated[Path | None, option("PATH", "captions.csv or .txt in the folder")] = None
    """The captions of a folder of images: .txt, .csv, .tsv or .parquet."""
    image_column: Annotated[str | None, option("NAME", "image, file_name, path, ...")] = None
    """Column of the image files or pictures in a table."""
    caption_column: Annotated[str | None, option("NAME", "caption, text, ...")] = None
    """Column of the captions in a table."""
    out: Annotated[Path | None, option("PATH", "runs/adapt_DATA")] = None
    """Where the results go."""
    dry_run: Switch = False
    """Show counts, the first threshold and the estimated cost; write nothing."""
    device: Annotated[str | None, option("NAME")] = None
    """With --dry-run: also estimate for v5e-8, v6e-8 or h100, from their data sheets."""
    matching: Literal["auto", "group", "global"] = "auto"
    """Match within groups, or all images and captions at once; auto follows the data."""
    iterations: Annotated[
        int | None, option("N", "the model's advice, or 10, or 3 for generative models")
    ] = None
    """Rounds of matching and training."""
    epochs: Annotated[
        int | None, option("N", "the model's advice, or 20, or 10 for generative models")
    ] = None
    """Passes over the selected groups per iteration."""
    lr: Annotated[
        float | None,
        option("RATE", "the model's advice; 1e-5 for the paper's models; else found by a trial"),
    ] = None
    """Learning rate; the paper's are between 1e-5 and 6e-5."""
    batch_groups: Annotated[
        int | None, option("N", "50; 100 for single-image groups; 16 for generative models")
    ] = None
    """Groups per batch."""
    coverage: Annotated[float | None, option("SHARE", "0.2, or 0.5 without groups")] = None
    """Share of the groups selected in the first iteration."""
    first_precision: Annotated[float | None, option("SHARE")] = None
    """Instead of --coverage: select in the first iteration as many groups as possible of which this
    share is estimated to be right."""
    prior: Prior = "none"
    """What every caption scores anyway, with images of other groups: none leaves the scores as they
    are, subtract removes it, standardise also divides by its spread. Where each image has more
    captions than one, ttm diagnose says whether removing it helps."""
    schedule: Annotated[Schedule | None, option("NAME", "linear")] = None
    """How the threshold decays: linear or cosine (constant and ascending are for comparison)."""
    train: Annotated[str | None, option("PART", "all")] = None
    """What is trained: all, image, text, heads, last:N (the last N blocks and the heads), lora, or
    combined, as in text:last:2 and lora:last:2. What is frozen is computed once: last:2 makes a
    training step several times cheaper."""
    train_dtype: Annotated[Dtype | None, option("float32|bfloat16", "float32")] = None
    """Type of the computation in training; scores and thresholds are always float32."""
    train_precision: Annotated[Precision | None, option("highest|high|default", "highest")] = None
    """Precision of float32 matrix products in training: on TPUs, high and default are faster."""
    augment: Switch = False
    """Train on random crops; not advisable where position or the edge of the image matters."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the order of the batches. With several, the model and the matchings are those of
    the first, and the table says how many agree."""
    keep_checkpoints: Annotated[int | None, option("N", "3")] = None
    """How many of the latest checkpoints stay on disk; 0 keeps all."""
    revision: Annotated[str | None, option("REVISION", "the main branch")] = None
    """Branch, tag or commit of a hub model."""
    files_from: Annotated[str | None, option("SOURCE")] = None
    """Hugging Face folder or hub id that provides the tokenizer for an .npz."""
    strict: Switch = False
    """Do not train if the diagnosis (ttm diagnose) finds nothing that the model knows."""
    hosts: Hosts = "auto"
    """Form one program with the same command on other hosts (TPU pod, SLURM, ...), or do not look
    for any."""
    one_per_host: Switch = False
    """Run the seeds side by side, one per host, each on all devices of its host."""
    resume: Switch = True
    """Refuse a folder that already holds a run, instead of resuming it."""
    page: Switch = True
    """Leave out report.html."""
    tensorboard: Switch = False
    """Write event files for TensorBoard (extra `tensorboard`)."""
    profile: int = 0
    """Trace about this many training steps of the first seed, for TensorBoard or Perfetto."""
    wandb: Annotated[str | None, option("PROJECT")] = None
    """Log to this Weights & Biases project (extra `wandb`)."""
    quiet: Switch = False
    """Print the result only, no progress."""


def main(argv: Sequence[str]) -> None:
    args = parse(Args, argv, "ttm adapt", __doc__)
    check_seeds(*args.seeds)
    check_device(args.device, dry_run=args.dry_run)
    check_trackers(tensorboard=args.tensorboard, wandb=args.wandb)
    join(args.hosts)
    if args.out is not None:
        args = replace(args, out=working_folder(args.out))
    data = read_own_data(
        fetched(args.data),
        None if args.captions is None else fetched(args.captions),
        image_column=args.image_column,
        caption_column=args.caption_column,
    )
    config = settings(args, data, Advice(), generative=False)  # mistakes in flags before the model
    say(args, *data.notes, describe(data.dataset, config), f"loading {args.model}")
    from ttm_jax.load import load_model
    from ttm_jax.scorers.contrastive.model import ContrastiveModel

    model = load_model(args.model, revision=args.revision, files_from=args.files_from)
    contrastive = isinstance(model, ContrastiveModel)
    advice = model.advice if isinstance(model, ContrastiveModel) else Advice()
    if not args.quiet:
        say_about(args.model, advice)
    config = settings(args, data, advice, generative=not contrastive)
    config = with_rate(args, model, data, config, advice)
    if args.dry_run:
        from ttm_jax.engine.cost_estimate import estimate
        from ttm_jax.report.adaptation import elsewhere, outlook_text

        verdict = sentence_before_training(args, model, data, config)
        found = estimate(model, data.dataset, config)
        there = elsewhere(args.device, model, data.dataset, config, found, len(args.seeds))
        seeds = len(args.seeds)
        print(outlook_text(data.dataset, args.model, config, found, seeds, verdict, there))
        return
    if not begun(output(args, data)):
        say(args, sentence_before_training(args, model, data, config))
    adapt(args, model, data, config)


def sentence_before_training(
    args: Args, model: "ContrastiveModel | VQAModel", data: OwnData, config: TTMConfig
) -> str:
    """What a diagnosis says; with --strict an error if there is nothing to amplify."""
    from ttm_jax.engine.diagnosis import diagnose, why_no_diagnosis
    from ttm_jax.scorers.contrastive.model import ContrastiveModel

    why_not = why_no_diagnosis(data.dataset, config)
    if not (args.strict or why_not or isinstance(model, ContrastiveModel)):
        why_not = "a generative model scores every pair by itself, and decoys are ten times as many"
    if why_not is None:
        found = diagnose(model, data.dataset, config)
        if args.strict and not found.go_ahead:
            raise InputError(f"--strict: {found.sentence}")
        return found.sentence
    if args.strict:
        raise InputError(f"--strict: no diagnosis: {why_not}")
    return f"no diagnosis: {why_not}"


def say(args: Args, *lines: str) -> None:
    if not args.quiet:
        for line in lines:
            print(for_reading(line, sys.stderr.isatty()), file=sys.stderr, flush=True)


def settings(args: Args, data: OwnData, advice: Advice, *, generative: bool) -> TTMConfig:
    """The defaults for such data, with what the model advises and what the user wants otherwise."""
    matching: Matching = "group" if data.grouped and args.matching != "global" else "global"
    if not data.grouped and args.matching == "group":
        raise InputError(f"{args.data} has no groups; --matching group needs some")
    shapes = [block.shape for block in data.dataset.blocks]
    if matching == "group" and all(shape == (1, 1) for shape in shapes):
        raise InputError(
            f"{args.data}: every group has one image and one caption, so there is nothing to "
            "match; leave the groups out (--matching global), or put several into one group"
        )
    config = own_data_config(shapes, matching, generative=generative)
    config = with_advice(config, advice, args.model)
    names = (
        "iterations", "epochs", "lr", "batch_groups", "coverage", "first_precision", "schedule",
        "train", "train_dtype", "train_precision", "keep_checkpoints",
    )  # fmt: skip
    changes = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return replace(config, augment=args.augment, prior=args.prior, **changes)


def with_rate(
    args: Args,
    model: "ContrastiveModel | VQAModel",
    data: OwnData,
    config: TTMConfig,
    advice: Advice,
) -> TTMConfig:
    """The learning rate that was given, recommended, used before, or that a trial finds."""
    from ttm_jax.scorers.contrastive.model import ContrastiveModel

    generative = not isinstance(model, ContrastiveModel)
    if args.lr is not None:
        return config
    if rate_is_known(advice, args.model, generative=generative):
        who = "the model" if advice.settings else "the paper"
        rounds = f"{config.iterations} iteration{'s' if config.iterations > 1 else ''}"
        epochs = f"{config.epochs} epoch{'s' if config.epochs > 1 else ''}"
        say(args, f"lr {config.lr:g}, recommended by {who}; {rounds} of {epochs}")
        return config
    earlier = rate_of_run(output(args, data))
    if earlier is not None:
        return replace(config, lr=earlier)  # a run that is resumed keeps its rate
    from ttm_jax.engine.learning_rate import find_rate

    say(args, "looking for a learning rate (a short trial; --lr leaves it out)")
    found = find_rate(model, data.dataset, config)
    say(args, found.text)
    return replace(config, lr=found.lr)


def rate_of_run(out: Path) -> float | None:
    """The learning rate of the run that this folder holds already."""
    from ttm_jax.hosts.exchange import from_first
    from ttm_jax.runs.read.identity import read_identity

    path = begun(out)
    if path is None:
        return None
    return from_first(lambda: float(read_identity(path)["config"]["lr"]))


def begun(out: Path) -> Path | None:
    """The first run that this folder holds already; asked once, before this command adds one."""
    from ttm_jax.hosts.exchange import from_first
    from ttm_jax.runs.locate import RUN

    def find() -> str | None:
        places = [out / RUN, *sorted((out / RUN).glob("seed_*"))]
        return next((str(path) for path in places if (path / "config.json").is_file()), None)

    found = from_first(find)
    return None if found is None else Path(found)


def refuse_foreign_model(out: Path) -> None:
    """Say before the training that its result would have no place."""
    from ttm_jax.report.checkpoints.adapted_model import holds_files
    from ttm_jax.runs.locate import MODEL

    if begun(out) is None and holds_files(out / MODEL):
        raise InputError(
            f"{out / MODEL} exists already, and {out} holds no run that it could be from; move it "
            "away, or give another folder with --out"
        )


def output(args: Args, data: OwnData) -> Path:
    return args.out or Path("runs") / f"adapt_{data.dataset.name}"


def adapt(
    args: Args, model: "ContrastiveModel | VQAModel", data: OwnData, config: TTMConfig
) -> None:
    from ttm_jax.report.adaptation import print_result, write_page_of, write_results
    from ttm_jax.runs.console import Console

    out = output(args, data)
    refuse_foreign_model(out)
    with Console("quiet" if args.quiet else "auto") as console:
        results = run(args, model, data, config, out, console)
    summary = write_results(out, data, config, results)
    page = write_page_of(out) if args.page else None
    print_result(summary, results, data, out, page)


def run(
    args: Args,
    model: "ContrastiveModel | VQAModel",
    data: OwnData,
    config: TTMConfig,
    out: Path,
    console: "Console",
) -> "list[TTMResult]":
    """One seed into OUT/run, several into OUT/run/seed_0, seed_1, ..."""
    from functools import partial

    from ttm_jax.engine.seeds import run_seeds
    from ttm_jax.engine.ttm import run_ttm
    from ttm_jax.runs.locate import RUN
    from ttm_jax.runs.trackers import open_trackers

    track = partial(open_trackers, tensorboard=args.tensorboard, wandb=args.wandb)
    task = (model, data.dataset, config)
    if len(args.seeds) > 1:
        return run_seeds(
            *task,
            args.seeds,
            out / RUN,
            resume=args.resume,
            console=console,
            one_per_host=args.one_per_host,
            donate=True,
            keep_models="first",
            profile=args.profile,
            track=track,
        )
    trackers = track(out, data.dataset.name)
    try:
        return [
            run_ttm(
                *task,
                out / RUN,
                args.seeds[0],
                resume=args.resume,
                console=console,
                trackers=trackers,
                donate=True,
                profile=args.profile,
            )
        ]
    finally:
        for tracker in trackers:
            tracker.close()
