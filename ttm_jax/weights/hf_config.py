"""Conversion between the config.json of transformers' SigLIP, CLIP, MetaCLIP 2 and our model sizes.

Missing fields take the defaults of transformers' SiglipConfig and CLIPConfig: the published files
of the base models leave out nearly all of them. MetaClip2Config has the defaults of CLIPConfig.
"""

from collections.abc import Mapping
from math import isqrt
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.models.clip import CLIPConfig, Layout
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.models.transformer import Activation, Compute, TowerConfig
from ttm_jax.weights.checkpoint_files import Config

Fields = Mapping[str, Any]

_LARGEST = 2**24  # of any size: vocabularies reach 2**18
DEEPEST = 1024  # layers

_ACTIVATIONS: dict[str, Activation] = {
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "quick_gelu": "quick_gelu",
}
_B_TOWER = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
_SIGLIP = {**_B_TOWER, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}
_CLIP = {**_B_TOWER, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5}
_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "siglip": {
        "vision": {**_SIGLIP, "image_size": 224, "patch_size": 16, "num_channels": 3},
        "text": {**_SIGLIP, "vocab_size": 32000, "max_position_embeddings": 64},
    },
    "clip": {
        "vision": {**_CLIP, "image_size": 224, "patch_size": 32, "num_channels": 3},
        "text": {
            **_CLIP,
            "hidden_size": 512,
            "intermediate_size": 2048,
            "num_attention_heads": 8,
            "vocab_size": 49408,
            "max_position_embeddings": 77,
            "eos_token_id": 49407,
        },
    },
}
_DEFAULTS["metaclip_2"] = _DEFAULTS["clip"]
# NaFlex: `num_patches` are the positions, of a square grid.
_DEFAULTS["siglip2"] = {
    "vision": {**_SIGLIP, "patch_size": 16, "num_channels": 3, "num_patches": 256},
    "text": _DEFAULTS["siglip"]["text"],
}
# In CLIP's old files 2 means "the largest id of the caption". In MetaCLIP 2 it is a real token.
_LEGACY_EOS = 2
_EXPECTED = 'expected "siglip", "siglip2", "clip" or "metaclip_2", with both towers'


def read(fields: Fields, compute: Compute, where: str) -> Config:
    """Parse the content of a config.json into our sizes; `where` names the file in errors."""
    family = fields.get("model_type")
    if not isinstance(family, str) or family not in _DEFAULTS:
        raise InputError(f'{where}: model_type is "{family}": {_EXPECTED}')
    is_siglip = family.startswith("siglip")
    vision, text = (_section(fields, family, tower, where) for tower in ("vision", "text"))
    if vision["num_channels"] != 3:
        raise InputError(f"{where}: num_channels is {vision['num_channels']}, expected 3 (RGB)")
    max_patches = 0
    if family == "siglip2":
        max_patches = read_count(vision, "num_patches", where)
        side = isqrt(max_patches)
        if side**2 != max_patches or not vision.get("vision_use_head", True):
            raise InputError(f"{where}: num_patches is no square, or vision_use_head is false")
        vision["image_size"] = side * read_square(vision, "patch_size", where)
    common: dict[str, Any] = {
        "image_size": read_square(vision, "image_size", where),
        "patch_size": read_square(vision, "patch_size", where),
        "vision": read_tower(vision, compute, False, where),
        "text": read_tower(text, compute, not is_siglip, where),
        "vocab_size": read_count(text, "vocab_size", where),
        "text_length": read_count(text, "max_position_embeddings", where),
    }
    if is_siglip:
        size = text.get("projection_size") or text["hidden_size"]
        head = {"projection_size": size}
        width = read_count(head, "projection_size", where)
        return SigLIPConfig(**common, embed_dim=width, max_patches=max_patches)
    top = {"projection_dim": 512, **fields}
    layout: Layout = "clip" if family == "clip" else "metaclip_2"
    eos = read_count(text, "eos_token_id", where)
    return CLIPConfig(
        **common,
        embed_dim=read_count(top, "projection_dim", where),
        eos_token_id=None if layout == "clip" and eos == _LEGACY_EOS else eos,
        layout=layout,
    )


def write(config: Config) -> dict[str, Any]:
    """The content of a config.json that transformers reads as the same model."""
    vision = {
        **write_tower(config.vision),
        "image_size": config.image_size,
        "patch_size": config.patch_size,
    }
    text = {
        **write_tower(config.text),
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.text_length,
    }
    if isinstance(config, CLIPConfig):
        kind, eos = config.layout, config.eos_token_id
        if kind == "open_clip" or (eos == _LEGACY_EOS if kind == "clip" else eos is None):
            raise InputError(f'no config.json of "{kind}" has captions that end at {eos}')
        return {
            "architectures": ["CLIPModel" if kind == "clip" else "MetaClip2Model"],
            "model_type": kind,
            "projection_dim": config.embed_dim,
            "text_config": {
                "model_type": f"{kind}_text_model",
                **text,
                "eos_token_id": _LEGACY_EOS if eos is None else eos,
            },
            "vision_config": {"model_type": f"{kind}_vision_model", **vision},
        }
    text["projection_size"] = config.embed_dim
    siglip = "siglip2" if config.max_patches else "siglip"
    if config.max_patches:
        vision["num_patches"] = config.patches
        del vision["image_size"]
    return {
        "architectures": [f"{siglip.title()}Model"],
        "model_type": siglip,
        "text_config": {"model_type": f"{siglip}_text_model", **text},
        "vision_config": {"model_type": f"{siglip}_vision_model", **vision},
    }


def _section(fields: Fields, family: str, tower: str, where: str) -> dict[str, Any]:
    defaults = _DEFAULTS[family][tower]
    given = fields.get(f"{tower}_config") or {}
    old = fields.get(f"{tower}_config_dict") if not family.startswith("siglip") else None
    for key, value in ((f"{tower}_config", given), (f"{tower}_config_dict", old or {})):
        if not isinstance(value, Mapping):
            raise InputError(f"{where}: {key} is {value!r}, expected an object")
    if old is None:
        return {**defaults, **given}
    # Early CLIP files have both. In transformers the old one takes precedence, with its defaults.
    return {**given, **defaults, **old}


def read_tower(section: Fields, compute: Compute, causal: bool, where: str) -> TowerConfig:
    width, heads = (read_count(section, k, where) for k in ("hidden_size", "num_attention_heads"))
    if width % heads:
        raise InputError(f"{where}: hidden_size {width} is not a multiple of {heads} heads")
    if not isinstance(section["hidden_act"], str) or section["hidden_act"] not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise InputError(
            f'{where}: hidden_act is "{section["hidden_act"]}", expected one of {known}'
        )
    return TowerConfig(
        width=width,
        depth=read_count(section, "num_hidden_layers", where, DEEPEST),
        heads=heads,
        mlp_dim=read_count(section, "intermediate_size", where),
        activation=_ACTIVATIONS[section["hidden_act"]],
        norm_eps=read_epsilon(section, "layer_norm_eps", where),
        causal=causal,
        compute=compute,
    )


def write_tower(tower: TowerConfig) -> dict[str, Any]:
    activation = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}[tower.activation]
    return {
        "hidden_size": tower.width,
        "intermediate_size": tower.mlp_dim,
        "num_hidden_layers": tower.depth,
        "num_attention_heads": tower.heads,
        "hidden_act": activation,
        "layer_norm_eps": tower.norm_eps,
    }


def read_count(section: Fields, key: str, where: str, most: int = _LARGEST) -> int:
    """A size. The bound keeps a wrong number from being allocated before it is compared."""
    value = section[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InputError(f"{where}: {key} is {value!r:.40}, expected an integer from 1 to {most:,}")
    return value


def read_epsilon(section: Fields, key: str, where: str) -> float:
    """The small number that a norm adds."""
    value = section[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InputError(f"{where}: {key} is {value!r:.40}, expected a number between 0 and 1")
    return float(value)


def read_square(section: Fields, key: str, where: str) -> int:
    """Read a size, which may also be written as [size, size]."""
    value = section[key]
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    return read_count({key: value}, key, where)
