"""The adapted model of a run as a Hugging Face folder with its card: written whole, or checked."""

import os
from pathlib import Path
from typing import Protocol, runtime_checkable

import jax
import numpy as np
from flax.traverse_util import flatten_dict

from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point
from ttm_jax.files import named, temporary_folder
from ttm_jax.load import load_model
from ttm_jax.report.checkpoints.model_card import write_card
from ttm_jax.report.run_data import SeedRun
from ttm_jax.training.trainable import Params
from ttm_jax.weights.huggingface import check_is_new


@runtime_checkable
class SavedModel(Protocol):
    """What both kinds of models have."""

    @property
    def params(self) -> Params: ...

    def save(self, folder: str | Path) -> None: ...


def holds_files(folder: Path) -> bool:
    """Whether something is there that must not be written over."""
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def write_model(
    model: SavedModel, folder: Path, run: SeedRun, iteration: int | None = None, name: str = ""
) -> None:
    """Write the model and its card as a new folder, which appears when it is complete.

    Args:
        model: The model of the run after `iteration`.
        folder: A new or an empty folder.
        run: The run, for the card.
        iteration: None for the last one.
        name: What the model will be loaded by, if it is not the name of the folder.
    """
    check_is_new(folder)
    with named(folder), temporary_folder(folder.parent) as temporary:
        made = temporary / "model"
        model.save(made)
        fault_point("model saved")
        write_card(made, run, iteration, name or folder.resolve().name)
        os.replace(made, folder)


def check_model(model: SavedModel, folder: Path) -> None:
    """Raise `InputError` unless the folder holds this very model, as `write_model` wrote it."""
    try:
        there = load_model(folder).params
    except InputError as error:
        raise _other(folder, str(error)) from error
    found, expected = (flatten_dict(params, sep="/") for params in (there, model.params))
    if found.keys() != expected.keys():
        raise _other(folder, "it is a model of another kind")
    for path, leaf in expected.items():
        if not np.array_equal(np.asarray(found[path]), np.asarray(jax.device_get(leaf))):
            raise _other(folder, f"{path} has other values")


def _other(folder: Path, reason: str) -> InputError:
    return InputError(
        f"{folder} does not hold the model of this run ({reason}): move it away, and rerun the "
        "same command to write it again"
    )
