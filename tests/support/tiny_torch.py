"""Tiny random models of transformers' PyTorch classes, and their results as numpy arrays.

Imports PyTorch: used by the parity tests where it is installed, and by make_golden.py.
"""

import numpy as np
import torch
from transformers import (
    CLIPConfig,
    CLIPModel,
    MetaClip2Config,
    MetaClip2Model,
    SiglipConfig,
    SiglipModel,
)

torch.set_num_threads(2)
VOCABULARY, LENGTH = 64, 16
LARGEST_ID = VOCABULARY - 1
LEGACY_EOS = 2  # used by old CLIP configs to mean the largest id
AnyConfig = SiglipConfig | CLIPConfig | MetaClip2Config
AnyModel = SiglipModel | CLIPModel | MetaClip2Model
_MODELS = {"siglip": SiglipModel, "clip": CLIPModel, "metaclip_2": MetaClip2Model}


def _tower(sizes: tuple[int, int, int, int], activation: str, eps: float) -> dict:
    names = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size")
    return {
        **dict(zip(names, sizes, strict=True)),
        "hidden_act": activation,
        "layer_norm_eps": eps,
    }


def _text(eos: int) -> dict:
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": eos}
    return {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH, **ids}


def _siglip(
    activation: str, image_size: int, vision=(32, 4, 3, 48), text=(24, 3, 2, 40)
) -> SiglipConfig:
    image = {"image_size": image_size, "patch_size": 8}
    return SiglipConfig(
        vision_config={**image, **_tower(vision, activation, 1e-6)},
        text_config={
            **_text(1),
            **_tower(text, activation, 1e-6),
            "projection_size": vision[0],
        },
    )


def _clip(
    activation: str, eos: int, vision=(48, 4, 2, 56), text=(32, 2, 3, 40), kind: type = CLIPConfig
) -> AnyConfig:
    image = {"image_size": 32, "patch_size": 8}
    return kind(
        projection_dim=20,
        vision_config={**image, **_tower(vision, activation, 1e-5)},
        text_config={**_text(eos), **_tower(text, activation, 1e-5)},
    )


CONFIGS = {
    "siglip": _siglip("gelu_pytorch_tanh", 32),
    # 30 px are 3 patches of 8 and a remainder, like 384 px with patches of 14.
    "siglip_gelu_with_rest": _siglip("gelu", 30),
    "clip": _clip("quick_gelu", 40),
    "clip_gelu_legacy_eos": _clip("gelu", LEGACY_EOS),
    # Here 2 is the token at which captions end.
    "metaclip_2": _clip("quick_gelu", LEGACY_EOS, kind=MetaClip2Config),
    # For the golden files.
    "siglip_small": _siglip("gelu_pytorch_tanh", 24, (16, 2, 2, 24), (12, 2, 2, 20)),
    "clip_small": _clip("quick_gelu", 40, (16, 2, 2, 24), (12, 2, 2, 20)),
}


def make(config: AnyConfig, seed: int) -> AnyModel:
    """A model without parameters that are zero, one, or too small to reveal a mistake."""
    model = _MODELS[config.model_type](config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.2 * torch.randn(parameter.shape, generator=generator)
            is_norm_weight = "norm" in name and name.endswith("weight")
            parameter.copy_(noise + 1 if is_norm_weight else noise)
        model.logit_scale.fill_(2.5)
        if isinstance(model, SiglipModel):
            model.logit_bias.fill_(-4.0)
    return model


def make_full_size(config: AnyConfig, seed: int) -> AnyModel:
    """transformers' own initialisation, with noise added to the vectors, which are 0 or 1 there."""
    torch.manual_seed(seed)
    model = _MODELS[config.model_type](config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.02 * torch.randn(parameter.shape))
        model.logit_scale.fill_(np.log(100.0))  # about the value of the published models
    return model


def inputs(
    config: AnyConfig, images: int, texts: int, length: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [N, H, W, 3] and ids [M, L]; CLIP's captions have different lengths."""
    rng = np.random.default_rng(seed)
    size = config.vision_config.image_size
    pixels = rng.uniform(-1, 1, (images, size, size, 3)).astype(np.float32)
    ids = rng.integers(3, LARGEST_ID, (texts, length)).astype(np.int32)
    if not isinstance(config, SiglipConfig):
        eos = config.text_config.eos_token_id
        ids[ids == eos] = 3
        end = rng.integers(0, length, texts)
        legacy = eos == LEGACY_EOS and config.model_type == "clip"
        ids[np.arange(texts), end] = LARGEST_ID if legacy else eos
        ids[0, end[0] :] = ids[0, end[0]]  # padded with eos, like CLIP's tokenizer
    return pixels, ids


def forward(model: AnyModel, pixels: np.ndarray, ids: np.ndarray) -> dict:
    """Embeddings, logits [image, text] and the hidden states of both towers."""
    with torch.no_grad():
        out = model(**_tensors(pixels, ids), output_hidden_states=True)
    return {
        "image": out.image_embeds.numpy(),
        "text": out.text_embeds.numpy(),
        "logits": out.logits_per_image.numpy(),
        "vision_states": [state.numpy() for state in out.vision_model_output.hidden_states],
        "text_states": [state.numpy() for state in out.text_model_output.hidden_states],
        "last_vision_state": out.vision_model_output.last_hidden_state.numpy(),
    }


def loss_and_gradients(
    model: AnyModel, pixels: np.ndarray, ids: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """The family's own contrastive loss; gradients by parameter name."""
    model.zero_grad()
    loss = model(**_tensors(pixels, ids), return_loss=True).loss
    loss.backward()
    return loss.item(), {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def state(model: AnyModel) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def _tensors(pixels: np.ndarray, ids: np.ndarray) -> dict[str, torch.Tensor]:
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    return {"pixel_values": images, "input_ids": torch.from_numpy(ids).long()}
