"""A variant of the procedural world, a small model, several seeds: for `small` and `demo`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttm_jax.config import Matching, TTMConfig

if TYPE_CHECKING:
    from ttm_jax.console import Console
    from ttm_jax.report.results import ResultRow


def run_variant(
    variant: str,
    model: str,
    matching: Matching,
    config: TTMConfig,
    seeds: Sequence[int],
    folder: Path,
    console: "Console",
    *,
    groups: int,
    data_seed: int = 0,
    resume: bool = True,
    tensorboard: bool = False,
    wandb: str | None = None,
) -> "ResultRow":
    """Run or resume the seeds; the row of their result."""
    from ttm_jax.data import world
    from ttm_jax.load import load_model
    from ttm_jax.report.results import result_row
    from ttm_jax.seeds import run_seeds
    from ttm_jax.trackers import open_trackers

    results: Any = run_seeds(
        load_model(model),
        world.make(variant, groups, data_seed),
        config,
        seeds,
        folder,
        resume=resume,
        console=console,
        track=partial(open_trackers, tensorboard=tensorboard, wandb=wandb),
    )
    images, texts = world.VARIANTS[variant].shape
    return result_row(variant, f"{images}x{texts}", model, matching, results)
