"""Which run a folder stands for: itself, or the one that `ttm adapt` has put inside it."""

from pathlib import Path

from ttm_jax.errors import InputError
from ttm_jax.plain_text import one_line

RUN = "run"
"""Name of the run folder inside the folder that `ttm adapt` writes."""
MODEL = "model"
"""Name of the adapted model beside it, a Hugging Face folder."""
_NAMED = 8


def is_run(path: Path) -> bool:
    """Whether a model can be loaded from this run folder."""
    return (path / "checkpoints").is_dir() and (path / "config.json").is_file()


def run_of(path: Path) -> Path | None:
    """The run that `path` stands for; None if it is no run and holds none.

    That is the path itself, the run of a folder that `ttm adapt` has written, or the only seed of
    an experiment. Of several seeds, one has to be named.
    """
    for folder in (path, path / RUN):
        if is_run(folder):
            return folder
        seeds = sorted(child for child in folder.glob("seed_*") if is_run(child))
        if len(seeds) > 1:
            named = ", ".join(map(str, seeds[:_NAMED]))
            raise InputError(one_line(f"{path} holds several runs; give one: {named}"))
        if seeds:
            return seeds[0]
    return None
