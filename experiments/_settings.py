"""The settings of a run: the paper's, or with `--small` ours, and what the flags change."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from experiments._flags import Flags
from ttm_jax.config import Matching, Memory, TTMConfig
from ttm_jax.errors import InputError
from ttm_jax.files import read_json

# Flags that are fields of TTMConfig under the same name.
_FIELDS = (
    "iterations", "epochs", "lr", "tau_1", "dtype", "precision", "train_dtype", "train_precision",
    "placement",
)  # fmt: skip
# How a run is computed; the result is the same up to rounding, or should be.
_COMPUTED = ("memory", "placement", "keep_checkpoints")
# What the scores of an untrained model depend on.
_OF_SCORES = ("dtype", "precision", "exif")


def apply_flags(config: TTMConfig, flags: Flags) -> TTMConfig:
    """`config` is what the run would have without flags."""
    if flags.config is not None:
        config = saved_config(flags.config, config.matching)
    changes: dict[str, Any] = {
        name: getattr(flags, name) for name in _FIELDS if getattr(flags, name) is not None
    }
    if flags.keep_opt_state is not None:
        changes["keep_opt_state"] = flags.keep_opt_state == "on"
    return replace(config, **changes)


def saved_config(path: Path, matching: Matching) -> TTMConfig:
    """The settings of an earlier run that matched in the same way."""
    saved = read_config(path)
    if saved.matching != matching:
        raise InputError(
            f"--config {path} is of {saved.matching} matching; this experiment has {matching} "
            "matching"
        )
    return saved


def read_config(path: Path) -> TTMConfig:
    """The settings in the config.json of a run, or of a run folder."""
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"--config {file} does not exist; give the config.json of a run")
    content = read_json(file)
    saved = content.get("config") if isinstance(content, dict) else None
    if not isinstance(saved, dict):
        raise InputError(f"--config {file} is not that of a run: it has no object `config`")
    known = {field.name for field in fields(TTMConfig)}
    unknown = sorted(set(saved) - known)
    if unknown:
        raise InputError(f"--config {file}: TTMConfig has no {', '.join(unknown)}")
    try:
        memory = Memory(**saved["memory"]) if "memory" in saved else Memory()
        return TTMConfig(**{**saved, "memory": memory})
    except TypeError as error:
        raise InputError(f"--config {file}: {error}") from error


def differences(usual: TTMConfig, config: TTMConfig, flags: Flags) -> dict[str, tuple[Any, Any]]:
    """Settings that decide the numbers and are not the usual ones: name -> (now, usual)."""
    found = {
        field.name: (getattr(config, field.name), getattr(usual, field.name))
        for field in fields(TTMConfig)
        if field.name not in _COMPUTED and getattr(config, field.name) != getattr(usual, field.name)
    }
    if flags.exif != "as-published" and not flags.small:
        found["exif"] = (flags.exif, "as-published")
    return found


def ignore_computation(config: TTMConfig, usual: TTMConfig) -> TTMConfig:
    """`config` with the usual values of the settings that do not decide the numbers."""
    return replace(config, **{name: getattr(usual, name) for name in _COMPUTED})


def change_scores(changes: dict[str, tuple[Any, Any]]) -> bool:
    """Whether the raw scores are computed in another way too."""
    return any(name in _OF_SCORES for name in changes)


def describe(changes: dict[str, tuple[Any, Any]]) -> str:
    """lr 0.001 instead of 2e-05, tau_1 1.0 instead of 2.0."""
    return ", ".join(f"{name} {now} instead of {usual}" for name, (now, usual) in changes.items())
