"""Load and save OpenCLIP's folders (open_clip_config.json and open_clip_model.safetensors).

A plain vision transformer with OpenCLIP's own text transformer is CLIP under other names. All else
(timm towers, ResNets, text towers of transformers, CoCa, ...) is refused by name.
"""

from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.files import write_json
from ttm_jax.inputs.open_clip_files import CONFIG, OFF, Only, read_section, refuse_others
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.transformer import Compute, TowerConfig
from ttm_jax.weights import safetensors_files
from ttm_jax.weights.checkpoint_files import (
    DEFAULT_COMPUTE,
    Checkpoint,
    Params,
    check_sizes,
    expected_shapes,
    make_checkpoint,
)
from ttm_jax.weights.hf_config import DEEPEST, Fields, read_count, read_square
from ttm_jax.weights.huggingface import copy_extra_files, new_folder
from ttm_jax.weights.parameter_names import rules
from ttm_jax.weights.positions import at_image_size
from ttm_jax.weights.tensor_layout import to_ours, to_theirs

_EPS = 1e-5
_TOWERS = ("vision_cfg", "text_cfg")
# Defaults of open_clip's CLIPVisionCfg and CLIPTextCfg.
_VISION: dict[str, Any] = {
    "layers": 12,
    "width": 768,
    "head_width": 64,
    "mlp_ratio": 4.0,
    "patch_size": 16,
    "image_size": 224,
}
_TEXT: dict[str, Any] = {
    "context_length": 77,
    "vocab_size": 49408,
    "width": 512,
    "heads": 8,
    "layers": 12,
    "mlp_ratio": 4.0,
    "pool_type": "argmax",
    "eos_id": 2,
}
_TOKENIZER = ("hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs")
# Settings of which only one value is a plain transformer: first what names another kind of tower.
_BLOCK: Only = {
    "block_type": (None, "default"),
    **dict.fromkeys(("ls_init_value", "qk_norm", "scaled_cosine_attn", "scale_heads"), OFF),
    **dict.fromkeys(("scale_attn_inner", "scale_attn", "scale_fc"), OFF),
    **dict.fromkeys(("act_kwargs", "norm_kwargs", "final_ln_after_pool", "output_tokens"), OFF),
}
_ONLY_VISION: Only = {
    **dict.fromkeys(("timm_model_name", "attentional_pool", "no_ln_pre"), OFF),
    "pool_type": ("tok",),
    "pos_embed_type": ("learnable",),
    **_BLOCK,
}
_ONLY_TEXT: Only = {
    **dict.fromkeys(("hf_model_name", "embed_cls", "no_causal_mask", "proj_bias"), OFF),
    "proj_type": ("linear",),
    "pool_type": ("argmax", "eos"),
    **_BLOCK,
}
_ONLY_MODEL: Only = dict.fromkeys(
    ("custom_text", "multimodal_cfg", "init_logit_bias", "nonscalar_logit_scale"), OFF
)


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
        tensors = to_theirs(rules(config), expected_shapes(config), params)
        safetensors_files.write(temporary / safetensors_files.OPEN_CLIP_WEIGHTS, tensors)
        fields: dict[str, Any] = {"model_cfg": write_config(config), "preprocess_cfg": {}}
        if extra_files_from is not None:
            source = Path(extra_files_from)
            fields["preprocess_cfg"] = read_section(source, "preprocess_cfg")
            given = read_section(source, "model_cfg", "text_cfg")
            fields["model_cfg"]["text_cfg"] |= {k: given[k] for k in _TOKENIZER if k in given}
            copy_extra_files(source, temporary, config.image_size)
        write_json(temporary / CONFIG, fields)


def read_config(model: Fields, compute: Compute, where: str) -> CLIPConfig:
    """Our sizes from `model_cfg`; `where` names the file in errors."""
    for name in _TOWERS:
        if not isinstance(model.get(name), dict):
            raise InputError(f"{where}: model_cfg has no {name}; is it a CLIP model of OpenCLIP?")
    vision, text = {**_VISION, **model["vision_cfg"]}, {**_TEXT, **model["text_cfg"]}
    if isinstance(vision["layers"], list):
        raise InputError(f"{where}: vision_cfg.layers is {vision['layers']}: a ResNet, not a ViT")
    # Dropping patches is for OpenCLIP's training, and padding is for the model without a mask.
    refuse_others(vision, _ONLY_VISION, {*_VISION, "patch_dropout"}, f"{where}: vision_cfg")
    refuse_others(text, _ONLY_TEXT, {*_TEXT, *_TOKENIZER, "pad_id"}, f"{where}: text_cfg")
    sizes = {"embed_dim", "quick_gelu", *_TOWERS}
    refuse_others(model, _ONLY_MODEL, sizes, f"{where}: model_cfg")
    heads = read_count(vision, "width", where) // read_count(vision, "head_width", where)
    quick = bool(model.get("quick_gelu"))
    return CLIPConfig(
        image_size=read_square(vision, "image_size", where),
        patch_size=read_square(vision, "patch_size", where),
        vision=_read_tower({**vision, "heads": heads}, quick, False, compute, where),
        text=_read_tower(text, quick, True, compute, where),
        vocab_size=read_count(text, "vocab_size", where),
        text_length=read_count(text, "context_length", where),
        embed_dim=read_count({"embed_dim": 0, **model}, "embed_dim", where),
        # OpenCLIP's default is to pool a caption at its largest id.
        eos_token_id=read_count(text, "eos_id", where) if text["pool_type"] == "eos" else None,
        layout="open_clip",
    )


def _read_tower(
    section: dict[str, Any], quick: bool, causal: bool, compute: Compute, where: str
) -> TowerConfig:
    width, ratio = read_count(section, "width", where), section["mlp_ratio"]
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1024:
        raise InputError(f"{where}: mlp_ratio is {ratio!r:.40}, expected a number, usually 4.0")
    return TowerConfig(
        width=width,
        depth=read_count(section, "layers", where, DEEPEST),
        heads=read_count(section, "heads", where),
        mlp_dim=int(width * ratio),
        activation="quick_gelu" if quick else "gelu",
        norm_eps=_EPS,
        causal=causal,
        compute=compute,
    )


def write_config(config: CLIPConfig) -> dict[str, Any]:
    """The content of `model_cfg` that OpenCLIP reads as the same model."""
    vision, text = config.vision, config.text
    if vision.activation != text.activation or {vision.norm_eps, text.norm_eps} != {_EPS}:
        raise InputError("OpenCLIP's towers share one activation and have layer norms of eps 1e-5")
    end = {} if config.eos_token_id is None else {"pool_type": "eos", "eos_id": config.eos_token_id}
    return {
        "embed_dim": config.embed_dim,
        "quick_gelu": vision.activation == "quick_gelu",
        "vision_cfg": {
            "image_size": config.image_size,
            "patch_size": config.patch_size,
            "layers": vision.depth,
            "width": vision.width,
            "head_width": vision.head_dim,
            "mlp_ratio": _ratio(vision),
        },
        "text_cfg": {
            "context_length": config.text_length,
            "vocab_size": config.vocab_size,
            "layers": text.depth,
            "width": text.width,
            "heads": text.heads,
            "mlp_ratio": _ratio(text),
            **end,
        },
    }


def _ratio(tower: TowerConfig) -> float:
    """The ratio from which OpenCLIP computes exactly this size, although it rounds down."""
    ratio = tower.mlp_dim / tower.width
    return (
        ratio if int(tower.width * ratio) == tower.mlp_dim else (tower.mlp_dim + 0.5) / tower.width
    )
