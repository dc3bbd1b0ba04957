"""Test-Time Matching with a small model on one variant of the procedural world, several seeds."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ttm_jax.config import Matching, TTMConfig

if TYPE_CHECKING:
    from ttm_jax.engine.result import TTMResult
    from ttm_jax.runs.console import Console


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
) -> "list[TTMResult]":
    """Run the seeds, or resume those already started in `folder`; return one result per seed."""
    from ttm_jax.data import world
    from ttm_jax.engine.seeds import run_seeds
    from ttm_jax.load import load_model
    from ttm_jax.runs.trackers import open_trackers

    return run_seeds(
        load_model(model),
        world.make(variant, groups, data_seed),
        config,
        seeds,
        folder,
        resume=resume,
        console=console,
        donate=True,
        keep_models="none",
        track=partial(open_trackers, tensorboard=tensorboard, wandb=wandb),
    )
