"""`model_cfg` of open_clip_config.json, and the sizes that it stands for."""

from dataclasses import dataclass
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.inputs.open_clip_files import OFF, Only, refuse_others
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.pe_core import PECoreConfig
from ttm_jax.models.rotary import RotaryGrid
from ttm_jax.models.transformer import Compute, TowerConfig
from ttm_jax.weights.hf_config import DEEPEST, Fields, read_count, read_square

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
TOKENIZER = ("hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs")
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


@dataclass(frozen=True)
class TimmTower:
    """The sizes that timm keeps under the name of an image tower."""

    image_size: int
    patch_size: int
    width: int
    depth: int
    heads: int
    mlp_dim: int
    class_token: bool = True
    grid_offset: float = 1.0

    @property
    def grid(self) -> RotaryGrid:
        """Rotary positions count the patches of an image of the published size."""
        return RotaryGrid(self.image_size // self.patch_size, self.grid_offset)


PE_CORE = {
    "vit_pe_core_tiny_patch16_384": TimmTower(384, 16, 192, 12, 3, 768),
    "vit_pe_core_small_patch16_384": TimmTower(384, 16, 384, 12, 6, 1536),
    "vit_pe_core_base_patch16_224": TimmTower(224, 16, 768, 12, 12, 3072),
    "vit_pe_core_large_patch14_336": TimmTower(336, 14, 1024, 24, 16, 4096),
    "vit_pe_core_gigantic_patch14_448": TimmTower(448, 14, 1536, 50, 16, 8960, False, 0.0),
}
# What its image section says beside the name of the tower and the size of the image.
_ONLY_PE_VISION: Only = {
    "timm_pool": ("map",),
    "timm_proj": (None, ""),
    **dict.fromkeys(("timm_drop", "timm_drop_path", "timm_proj_bias"), (None, False, 0)),
}
_FREE_PE_VISION = {"timm_model_name", "timm_model_pretrained", "image_size", "patch_dropout"}


def read_config(model: Fields, compute: Compute, where: str) -> CLIPConfig:
    """Our sizes from `model_cfg`; `where` names the file in errors."""
    for name in _TOWERS:
        if not isinstance(model.get(name), dict):
            raise InputError(f"{where}: model_cfg has no {name}; is it a CLIP model of OpenCLIP?")
    if model["vision_cfg"].get("timm_model_name") in PE_CORE:
        return _read_pe_core(model, compute, where)
    vision = {**_VISION, **model["vision_cfg"]}
    if isinstance(vision["layers"], list):
        raise InputError(f"{where}: vision_cfg.layers is {vision['layers']}: a ResNet, not a ViT")
    # Dropping patches is for OpenCLIP's training, and padding is for the model without a mask.
    refuse_others(vision, _ONLY_VISION, {*_VISION, "patch_dropout"}, f"{where}: vision_cfg")
    text = _read_text(model, compute, where)
    _refuse_other_models(model, _ONLY_MODEL, where)
    heads = read_count(vision, "width", where) // read_count(vision, "head_width", where)
    quick = bool(model.get("quick_gelu"))
    return CLIPConfig(
        image_size=read_square(vision, "image_size", where),
        patch_size=read_square(vision, "patch_size", where),
        vision=_read_tower({**vision, "heads": heads}, quick, False, compute, where),
        embed_dim=read_count({"embed_dim": 0, **model}, "embed_dim", where),
        layout="open_clip",
        **text,
    )


def _read_pe_core(model: Fields, compute: Compute, where: str) -> PECoreConfig:
    vision = model["vision_cfg"]
    refuse_others(vision, _ONLY_PE_VISION, _FREE_PE_VISION, f"{where}: vision_cfg")
    _refuse_other_models(model, {**_ONLY_MODEL, "custom_text": (True,)}, where)
    name = vision["timm_model_name"]
    tower = PE_CORE[name]
    image_size = read_square({"image_size": tower.image_size, **vision}, "image_size", where)
    if image_size != tower.image_size:
        raise InputError(
            f"{where}: vision_cfg.image_size is {image_size}, but {name} takes images of "
            f"{tower.image_size}; for another size set it when loading (--image-size)"
        )
    sizes = (tower.width, tower.depth, tower.heads, tower.mlp_dim)
    return PECoreConfig(
        image_size=tower.image_size,
        patch_size=tower.patch_size,
        vision=TowerConfig(*sizes, activation="gelu", norm_eps=_EPS, compute=compute),
        embed_dim=read_count({"embed_dim": 0, **model}, "embed_dim", where),
        layout="open_clip",
        timm_model=name,
        class_token=tower.class_token,
        grid=tower.grid,
        **_read_text(model, compute, where),
    )


def _refuse_other_models(model: Fields, only: Only, where: str) -> None:
    refuse_others(model, only, {"embed_dim", "quick_gelu", *_TOWERS}, f"{where}: model_cfg")


def _read_text(model: Fields, compute: Compute, where: str) -> dict[str, Any]:
    """The text tower's part of the sizes."""
    text = {**_TEXT, **model["text_cfg"]}
    refuse_others(text, _ONLY_TEXT, {*_TEXT, *TOKENIZER, "pad_id"}, f"{where}: text_cfg")
    quick = bool(model.get("quick_gelu"))
    return {
        "text": _read_tower(text, quick, True, compute, where),
        "vocab_size": read_count(text, "vocab_size", where),
        "text_length": read_count(text, "context_length", where),
        # OpenCLIP's default is to pool a caption at its largest id.
        "eos_token_id": read_count(text, "eos_id", where) if text["pool_type"] == "eos" else None,
    }


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
    if {vision.norm_eps, text.norm_eps} != {_EPS}:
        raise InputError("OpenCLIP's towers have layer norms of eps 1e-5")
    fields = {
        "embed_dim": config.embed_dim,
        "quick_gelu": text.activation == "quick_gelu",
        "vision_cfg": _write_vision(config),
        "text_cfg": _write_text(config),
    }
    return {**fields, "custom_text": True} if isinstance(config, PECoreConfig) else fields


def _write_vision(config: CLIPConfig) -> dict[str, Any]:
    vision = config.vision
    if isinstance(config, PECoreConfig):
        published = PE_CORE[config.timm_model].image_size
        if config.image_size != published:
            raise InputError(
                f"OpenCLIP's {config.timm_model} takes images of {published}, this model takes "
                f"images of {config.image_size}, which its folder cannot express: load it without "
                "image_size to save it"
            )
        return {
            "image_size": config.image_size,
            "timm_model_name": config.timm_model,
            "timm_model_pretrained": False,
            "timm_pool": "map",
            "timm_proj": None,
        }
    if vision.activation != config.text.activation:
        raise InputError("OpenCLIP's towers share one activation")
    return {
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "layers": vision.depth,
        "width": vision.width,
        "head_width": vision.head_dim,
        "mlp_ratio": _ratio(vision),
    }


def _write_text(config: CLIPConfig) -> dict[str, Any]:
    text = config.text
    end = {} if config.eos_token_id is None else {"pool_type": "eos", "eos_id": config.eos_token_id}
    return {
        "context_length": config.text_length,
        "vocab_size": config.vocab_size,
        "layers": text.depth,
        "width": text.width,
        "heads": text.heads,
        "mlp_ratio": _ratio(text),
        **end,
    }


def _ratio(tower: TowerConfig) -> float:
    """The ratio from which OpenCLIP computes exactly this size, although it rounds down."""
    ratio = tower.mlp_dim / tower.width
    return (
        ratio if int(tower.width * ratio) == tower.mlp_dim else (tower.mlp_dim + 0.5) / tower.width
    )
