"""The flags that every experiment of the paper takes. Light: no jax here."""

from dataclasses import dataclass
from pathlib import Path

from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Flags:
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """One run a seed; a seed decides the order of the batches. The paper has four runs."""
    small: bool = False
    """The same experiment with a small model on the procedural world: no download, minutes."""
    iterations: int | None = None
    """Another number of iterations than the paper's."""
    limit: int | None = None
    """Only the first so many groups, for a quick look."""
    model: str | None = None
    """Another checkpoint: hub id, Hugging Face folder, big_vision .npz, or a run of ours."""
    data_dir: Path | None = None
    """Where the benchmarks lie (default: $TTM_JAX_DATA or the user's cache; see prepare_data)."""
    fetch: bool = True
    """Fetch the benchmark if it is not there; --no-fetch stops and says how to get it."""
    skip_broken: bool = False
    """Leave out groups whose images cannot be read; the summary lists them."""
    run_dir: Path | None = None
    """Where the runs go (default: runs/NAME, with --small runs/NAME_small)."""
    resume: bool = True
    """Take up runs that were stopped; --no-resume refuses a folder that holds one."""
    one_per_device: bool = False
    """Give each seed a device of its own and run them at the same time."""
    tensorboard: bool = False
    """Write event files for TensorBoard into the run folders (extra `tensorboard`)."""
    wandb: str | None = None
    """Log to this Weights & Biases project (extra `wandb`)."""
    quiet: bool = False
    """No progress, only the table."""


def check(flags: Flags) -> None:
    """Refuse what no experiment can mean, before anything is loaded."""
    if not flags.seeds or len(set(flags.seeds)) < len(flags.seeds) or min(flags.seeds) < 0:
        raise InputError(
            f"--seeds {' '.join(map(str, flags.seeds))}: expected different whole numbers from 0"
        )
    for name in ("limit", "iterations"):
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise InputError(f"--{name} is {value}; expected at least 1")


def root_of(flags: Flags, name: str) -> Path:
    """The folder of an experiment."""
    return flags.run_dir or Path("runs") / (f"{name}_small" if flags.small else name)
