"""Folders of two-tower models, whoever's format they are in: transformers' or OpenCLIP's."""

from pathlib import Path

from ttm_jax.inputs.open_clip_files import is_open_clip
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import huggingface, open_clip
from ttm_jax.weights.checkpoint_files import DEFAULT_COMPUTE, Checkpoint, Config, Params


def load(
    folder: Path, *, compute: Compute = DEFAULT_COMPUTE, image_size: int | None = None
) -> Checkpoint:
    """Load a folder; transformers' files are preferred where both are there."""
    reader = open_clip if is_open_clip(Path(folder)) else huggingface
    return reader.load(folder, compute=compute, image_size=image_size)


def save(
    folder: Path, config: Config, params: Params, extra_files_from: Path | None = None
) -> None:
    """Save a folder in the format that the model comes from."""
    if isinstance(config, CLIPConfig) and config.layout == "open_clip":
        open_clip.save(folder, config, params, extra_files_from)
    else:
        huggingface.save(folder, config, params, extra_files_from)
