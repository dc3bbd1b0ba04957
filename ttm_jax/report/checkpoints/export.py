"""The model of a run in the formats of others."""

from pathlib import Path
from typing import Literal

import jax
import numpy as np

from ttm_jax.errors import InputError
from ttm_jax.load import load_run
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.report.checkpoints.adapted_model import write_model
from ttm_jax.report.checkpoints.model_card import write_card
from ttm_jax.report.run_data import read_one
from ttm_jax.weights import big_vision

FILE = "checkpoint.npz"


def export_run(
    path: Path,
    iteration: int | None,
    to: Literal["huggingface", "big_vision"],
    folder: Path,
    base: str | None = None,
    name: str = "",
) -> Path:
    """Write the model after an iteration (None: the last); returns what was written.

    A folder also gets a model card, in which `name` is what the model will be loaded by.
    """
    run = read_one(path)
    if to == "big_vision":
        target = folder if folder.suffix == ".npz" else folder / FILE
        if target.exists():
            raise InputError(f"{target} exists already; give another name")
    model = load_run(run.path, iteration, base=base)
    if to == "huggingface":
        write_model(model, folder, run, iteration, name)
        return folder
    if not isinstance(model.config, SigLIPConfig):
        raise InputError("big_vision has SigLIP only; export this model as huggingface")
    big_vision.save(target, model.config, jax.tree.map(np.asarray, model.params))
    if target.parent == folder:
        write_card(folder, run, iteration, name or str(target))
    return target
