"""The flags that every experiment of the paper takes. Light: no jax here."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from experiments._checks import check_at_least, check_seeds
from ttm_jax.bucket_storage import working_folder
from ttm_jax.cli.options import Switch, option
from ttm_jax.config import Dtype, Placement, Precision
from ttm_jax.engine.devices import check_device
from ttm_jax.hosts.join import Hosts, join
from ttm_jax.runs.trackers import check_trackers

Exif = Literal["on", "off", "as-published"]


F = TypeVar("F", bound="Flags")


@dataclass(frozen=True)
class Flags:
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """One run per seed; the seed decides the order of the batches. The paper has four runs."""
    small: Switch = False
    """Run the same experiment with a small model on the procedural world: no download, minutes."""
    dry_run: Switch = False
    """Load data and model, estimate time, memory and disk, and write nothing."""
    device: Annotated[str | None, option("NAME")] = None
    """With --dry-run: also estimate for v5e-8, v6e-8 or h100, from their data sheets."""
    model: Annotated[str | None, option("SOURCE", "the paper's")] = None
    """Checkpoint to use: hub id, Hugging Face folder, big_vision .npz, or run folder."""
    limit: Annotated[int | None, option("N", "all")] = None
    """Use only the first N groups, for a quick look."""
    iterations: Annotated[int | None, option("N", "the paper's")] = None
    """Number of iterations."""
    epochs: Annotated[int | None, option("N", "the paper's")] = None
    """Passes over the selected groups per iteration."""
    lr: Annotated[float | None, option("RATE", "the paper's")] = None
    """Learning rate of the first iteration."""
    tau_1: Annotated[float | None, option("TAU", "the paper's")] = None
    """First threshold."""
    keep_opt_state: Annotated[Literal["on", "off"] | None, option("on|off", "the paper's")] = None
    """Keep the optimizer's moments from one iteration to the next."""
    config: Annotated[Path | None, option("PATH", "the paper's settings")] = None
    """Take all settings from the config.json of an earlier run; other flags go on top."""
    dtype: Annotated[Dtype | None, option("float32|bfloat16", "float32")] = None
    """Type of the computation; parameters stay float32."""
    precision: Annotated[Precision | None, option("highest|high|default", "highest")] = None
    """Precision of float32 matrix products, which matters on TPUs and recent GPUs."""
    train_dtype: Annotated[Dtype | None, option("float32|bfloat16", "that of --dtype")] = None
    """Type of the computation in training only; scores and thresholds keep --dtype."""
    train_precision: Annotated[
        Precision | None, option("highest|high|default", "that of --precision")
    ] = None
    """Precision in training only; scores and thresholds keep --precision."""
    placement: Annotated[Placement | None, option("replicated|sharded", "replicated")] = None
    """Keep parameters and optimizer state on every device, or split them over the devices."""
    exif: Exif = "as-published"
    """Apply the EXIF orientation of images: on, off, or as the paper's program does."""
    data_dir: Annotated[Path | None, option("PATH", "$TTM_JAX_DATA or the user's cache")] = None
    """Where the benchmarks are; see `ttm data`."""
    fetch: Switch = True
    """Do not download a missing benchmark; say how to get it and stop."""
    skip_broken: Switch = False
    """Leave out groups whose images cannot be read; the summary lists them."""
    run_dir: Annotated[Path | None, option("PATH", "runs/NAME, or runs/NAME_small")] = None
    """Where the runs go."""
    resume: Switch = True
    """Refuse a folder that already holds a run, instead of resuming it."""
    one_per_device: Switch = False
    """Run the seeds side by side, one per device."""
    one_per_host: Switch = False
    """Run the seeds side by side, one per host, each on all devices of its host."""
    hosts: Hosts = "auto"
    """Form one program with the same command on other hosts (TPU pod, SLURM, ...), or do not look
    for any."""
    tensorboard: Switch = False
    """Write event files for TensorBoard into the run folders (extra `tensorboard`)."""
    profile: int = 0
    """Trace about this many training steps of the first seed, for TensorBoard or Perfetto."""
    wandb: Annotated[str | None, option("PROJECT")] = None
    """Log to this Weights & Biases project (extra `wandb`)."""
    quiet: Switch = False
    """Print the table only, no progress."""


def check(flags: Flags) -> None:
    """Refuse values that are wrong for every experiment, before anything is loaded."""
    check_seeds(flags.seeds)
    check_device(flags.device, dry_run=flags.dry_run)
    check_trackers(tensorboard=flags.tensorboard, wandb=flags.wandb)
    check_at_least("--limit", flags.limit)
    check_at_least("--iterations", flags.iterations)
    check_at_least("--epochs", flags.epochs)
    check_at_least("--profile", flags.profile, 0)


def start(flags: F) -> F:
    """Find the other hosts, and where to work on a run folder that is in a bucket."""
    join(flags.hosts)
    return flags if flags.run_dir is None else replace(flags, run_dir=working_folder(flags.run_dir))


def root_of(flags: Flags, name: str) -> Path:
    """The folder of an experiment."""
    return flags.run_dir or Path("runs") / (f"{name}_small" if flags.small else name)
