"""Load and save Hugging Face folders (config.json and safetensors) of Idefics3 models (SmolVLM).

SmolVLM2 ("smolvlm") is the same model under another name; its images are prepared in the same way.
Parameters are float32 in memory whatever the file's dtype. A bfloat16 file that is loaded and saved
without training is reproduced bit for bit.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import ml_dtypes
from flax.traverse_util import flatten_dict

from ttm_jax.errors import InputError
from ttm_jax.files import write_json
from ttm_jax.inputs.json_files import read_optional_json
from ttm_jax.models.llama import DecoderConfig
from ttm_jax.models.smolvlm import SmolVLM, SmolVLMConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import safetensors_files
from ttm_jax.weights.checkpoint_files import DEFAULT_COMPUTE, Params, Shape, Tensors
from ttm_jax.weights.hf_config import (
    DEEPEST,
    read_count,
    read_epsilon,
    read_square,
    read_tower,
    write_tower,
)
from ttm_jax.weights.huggingface import new_folder, read_fields
from ttm_jax.weights.parameter_names import smolvlm_rules
from ttm_jax.weights.tensor_layout import to_ours, to_theirs

# model_type -> the class of transformers
MODEL_TYPES = {
    "idefics3": "Idefics3ForConditionalGeneration",
    "smolvlm": "SmolVLMForConditionalGeneration",
}
Fields = Mapping[str, Any]


def is_idefics3(path: Path) -> bool:
    """Whether a folder's config.json says that it is one of these models."""
    found = read_optional_json(path / "config.json").get("model_type") if path.is_dir() else None
    return isinstance(found, str) and found in MODEL_TYPES


# Defaults of transformers' Idefics3VisionConfig and LlamaConfig.
_VISION: dict[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
}
_TEXT: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
}
# Settings of a Llama for which only one value is supported.
_ONLY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
}
# Files of a model besides its weights.
_EXTRA_FILES = (
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.json",
    "chat_template.jinja",
    "generation_config.json",
)


def load(folder: Path, *, compute: Compute = DEFAULT_COMPUTE) -> tuple[SmolVLMConfig, Params]:
    """Load the sizes and parameters from a folder in the format that transformers saves."""
    folder = Path(folder)
    fields = read_fields(folder / "config.json")
    with safetensors_files.opened(folder) as tensors:
        return convert(fields, tensors, str(folder), compute=compute)


def convert(
    fields: Fields, tensors: Tensors, source: str, *, compute: Compute = DEFAULT_COMPUTE
) -> tuple[SmolVLMConfig, Params]:
    """Like `load`, from the content of a config.json and tensors from any source."""
    config = read_config(fields, compute, f"{source}/config.json")
    return config, to_ours(smolvlm_rules(), expected_shapes(config), tensors, source)


def save(
    folder: Path,
    config: SmolVLMConfig,
    params: Params,
    *,
    dtype: Literal["float32", "bfloat16"] = "float32",
    extra_files_from: Path | None = None,
) -> None:
    """Save a folder that transformers' Idefics3ForConditionalGeneration (or SmolVLM's) loads.

    bfloat16 halves the size, but rounds away most of what a small learning rate has changed.
    """
    with new_folder(Path(folder)) as temporary:
        tensors = to_theirs(smolvlm_rules(), expected_shapes(config), params)
        if dtype == "bfloat16":
            tensors = {name: x.astype(ml_dtypes.bfloat16) for name, x in tensors.items()}
        safetensors_files.write(temporary / safetensors_files.WEIGHTS, tensors)
        write_json(temporary / "config.json", write_config(config, dtype))
        if extra_files_from is not None:
            for name in _EXTRA_FILES:
                if (extra_files_from / name).is_file():
                    shutil.copyfile(extra_files_from / name, temporary / name)


def expected_shapes(config: SmolVLMConfig) -> dict[str, Shape]:
    """Name and shape of every parameter of the model that `config` describes."""
    model = SmolVLM(config.with_compute(DEFAULT_COMPUTE))
    size = config.image_size
    variables = jax.eval_shape(
        lambda: model.init(
            jax.random.key(0),
            jnp.zeros((1, size, size, 3)),
            jnp.zeros((1, 1), jnp.int32),
            method="everything",
        )
    )
    return {path: leaf.shape for path, leaf in flatten_dict(variables["params"], sep="/").items()}


def read_config(fields: Fields, compute: Compute, where: str) -> SmolVLMConfig:
    """Parse the content of a config.json into our sizes; `where` names the file in errors."""
    vision = {**_VISION, **_section(fields, "vision_config", where)}
    if vision["num_channels"] != 3:
        raise InputError(f"{where}: num_channels is {vision['num_channels']}, expected 3 (RGB)")
    if fields.get("tie_word_embeddings"):
        raise InputError(f"{where}: tie_word_embeddings is true; only false is supported")
    top = {"scale_factor": 2, "image_token_id": 128257, **fields}
    config = SmolVLMConfig(
        image_size=read_square(vision, "image_size", where),
        patch_size=read_square(vision, "patch_size", where),
        shuffle=read_count(top, "scale_factor", where),
        vision=read_tower(vision, compute, False, where),
        text=_read_decoder({**_TEXT, **_section(fields, "text_config", where)}, compute, where),
        image_token_id=read_count(top, "image_token_id", where),
        model_type="smolvlm" if fields.get("model_type") == "smolvlm" else "idefics3",
    )
    if config.side % config.shuffle:
        raise InputError(
            f"{where}: a grid of {config.side} x {config.side} patches is not divisible by "
            f"scale_factor {config.shuffle}"
        )
    return config


def _section(fields: Fields, key: str, where: str) -> Fields:
    value = fields.get(key) or {}
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {key} is {value!r}, expected an object")
    return value


def _read_decoder(section: Fields, compute: Compute, where: str) -> DecoderConfig:
    for key, expected in _ONLY.items():
        if section.get(key, expected) != expected:
            raise InputError(
                f"{where}: text_config.{key} is {section[key]!r}; only {expected!r} is supported"
            )
    heads, width = (read_count(section, k, where) for k in ("num_attention_heads", "hidden_size"))
    shared = {"num_key_value_heads": section.get("num_key_value_heads") or heads}
    kv_heads = read_count(shared, "num_key_value_heads", where)
    if heads % kv_heads:
        raise InputError(f"{where}: {heads} heads cannot share {kv_heads} key-value heads")
    head = {"head_dim": section.get("head_dim") or width // heads}
    return DecoderConfig(
        width=width,
        depth=read_count(section, "num_hidden_layers", where, DEEPEST),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=read_count(head, "head_dim", where),
        mlp_dim=read_count(section, "intermediate_size", where),
        vocab_size=read_count(section, "vocab_size", where),
        max_positions=read_count(section, "max_position_embeddings", where),
        norm_eps=read_epsilon(section, "rms_norm_eps", where),
        rope_theta=_rope_theta(section, where),
        compute=compute,
    )


def _rope_theta(section: Fields, where: str) -> float:
    """The base of the rotary positions: a field of its own, or since transformers 5 in another."""
    rope: dict[str, Any] = {}
    for key in ("rope_scaling", "rope_parameters"):
        part = section.get(key) or {}
        if not isinstance(part, Mapping):
            raise InputError(f"{where}: {key} is {part!r:.40}, expected an object")
        rope |= part
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise InputError(f'{where}: rope_type is "{kind}"; only "default" is supported')
    theta = rope.get("rope_theta") or section.get("rope_theta") or 10000.0
    if isinstance(theta, bool) or not isinstance(theta, int | float) or not 1 <= theta <= 1e12:
        raise InputError(f"{where}: rope_theta is {theta!r:.40}, expected a number from 1 to 1e12")
    return float(theta)


def write_config(config: SmolVLMConfig, dtype: str = "float32") -> dict[str, Any]:
    """The content of a config.json that transformers reads as the same model."""
    text = config.text
    return {
        "architectures": [MODEL_TYPES[config.model_type]],
        "model_type": config.model_type,
        "dtype": dtype,
        "image_token_id": config.image_token_id,
        "scale_factor": config.shuffle,
        "tie_word_embeddings": False,
        "vision_config": {
            "model_type": f"{config.model_type}_vision",
            **write_tower(config.vision),
            "image_size": config.image_size,
            "patch_size": config.patch_size,
        },
        "text_config": {
            "model_type": "llama",
            "hidden_size": text.width,
            "intermediate_size": text.mlp_dim,
            "num_hidden_layers": text.depth,
            "num_attention_heads": text.heads,
            "num_key_value_heads": text.kv_heads,
            "head_dim": text.head_dim,
            "vocab_size": text.vocab_size,
            "max_position_embeddings": text.max_positions,
            "rms_norm_eps": text.norm_eps,
            "rope_parameters": {"rope_type": "default", "rope_theta": text.rope_theta},
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            # Inside the vocabulary, whatever its size; only used for generation.
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 2,
        },
    }
