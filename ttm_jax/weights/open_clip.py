"""Load and save OpenCLIP's folders (open_clip_config.json and open_clip_model.safetensors).

A plain vision transformer with OpenCLIP's own text transformer is CLIP under other names, and of
timm's image towers those of PE-Core load. All else (other towers of timm, ResNets, text towers of
transformers, CoCa, ...) is refused by name.
"""

from pathlib import Path
from typing import Any

from ttm_jax.files import write_json
from ttm_jax.inputs.open_clip_files import CONFIG, read_section
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import safetensors_files
from ttm_jax.weights.checkpoint_files import (
    DEFAULT_COMPUTE,
    Checkpoint,
    Params,
    check_sizes,
    expected_shapes,
    make_checkpoint,
)
from ttm_jax.weights.huggingface import copy_extra_files, new_folder
from ttm_jax.weights.open_clip_config import TOKENIZER, read_config, write_config
from ttm_jax.weights.parameter_names import rules
from ttm_jax.weights.positions import at_image_size
from ttm_jax.weights.tensor_layout import to_ours, to_theirs


def load(
    folder: Path, *, compute: Compute = DEFAULT_COMPUTE, image_size: int | None = None
) -> Checkpoint:
    """Load a model that OpenCLIP saved; another `image_size` resamples the position embedding."""
    folder = Path(folder)
    config = read_config(read_section(folder, "model_cfg"), compute, f"{folder}/{CONFIG}")
    check_sizes(config, f"{folder}/{CONFIG}")
    with safetensors_files.opened(folder) as tensors:
        params = to_ours(rules(config), expected_shapes(config), tensors, str(folder))
    checkpoint = make_checkpoint(config, params, str(folder))
    return checkpoint if image_size is None else at_image_size(checkpoint, image_size)


def save(
    folder: Path, config: CLIPConfig, params: Params, extra_files_from: Path | None = None
) -> None:
    """Save a folder that open_clip loads as "local-dir:FOLDER".

    Image and tokenizer settings and the tokenizer's files come from `extra_files_from`.
    """
    with new_folder(Path(folder)) as temporary:
        fields: dict[str, Any] = {"model_cfg": write_config(config), "preprocess_cfg": {}}
        tensors = to_theirs(rules(config), expected_shapes(config), params)
        safetensors_files.write(temporary / safetensors_files.OPEN_CLIP_WEIGHTS, tensors)
        if extra_files_from is not None:
            source = Path(extra_files_from)
            fields["preprocess_cfg"] = read_section(source, "preprocess_cfg")
            given = read_section(source, "model_cfg", "text_cfg")
            fields["model_cfg"]["text_cfg"] |= {k: given[k] for k in TOKENIZER if k in given}
            copy_extra_files(source, temporary, config.image_size)
        write_json(temporary / CONFIG, fields)
