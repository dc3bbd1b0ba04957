"""A tiny random Siglip2Model of transformers, and its results as numpy arrays. Imports PyTorch."""

import numpy as np
import torch
from transformers import Siglip2Config, Siglip2Model

torch.set_num_threads(2)
PATCH, POSITIONS, VOCABULARY, LENGTH = 4, 16, 64, 16


def make(seed: int = 0) -> Siglip2Model:
    """A model without parameters that are zero, one, or too small to reveal a mistake."""
    names = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size")
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 1}
    vision = {**dict(zip(names, (32, 4, 3, 48), strict=True)), "patch_size": PATCH}
    text = {**dict(zip(names, (24, 3, 2, 40), strict=True)), "projection_size": 32, **ids}
    sizes = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH}
    config = Siglip2Config(
        vision_config={**vision, "num_patches": POSITIONS}, text_config={**text, **sizes}
    )
    model = Siglip2Model(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.2 * torch.randn(parameter.shape, generator=generator)
            is_norm_weight = "norm" in name and name.endswith("weight")
            parameter.copy_(noise + 1 if is_norm_weight else noise)
        model.logit_scale.fill_(2.5)
        model.logit_bias.fill_(-4.0)
    return model


def make_full_size() -> Siglip2Model:
    """transformers' own initialisation, with noise added to the vectors, which are 0 or 1 there."""
    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 1}
    model = Siglip2Model(Siglip2Config(vision_config={}, text_config=ids)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.02 * torch.randn(parameter.shape))
        model.logit_scale.fill_(np.log(100.0))  # about the value of the published models
    return model


def forward(model: Siglip2Model, images: dict[str, np.ndarray], ids: np.ndarray) -> dict:
    """`images` is what transformers' image processor returns."""
    with torch.no_grad():
        out = model(**_tensors(images, ids))
    return {
        "image": out.image_embeds.numpy(),
        "text": out.text_embeds.numpy(),
        "logits": out.logits_per_image.numpy(),
    }


def loss_and_gradients(
    model: Siglip2Model, images: dict[str, np.ndarray], ids: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    model.zero_grad()
    loss = model(**_tensors(images, ids), return_loss=True).loss
    loss.backward()
    return loss.item(), {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def _tensors(images: dict[str, np.ndarray], ids: np.ndarray) -> dict[str, torch.Tensor]:
    return {
        "pixel_values": torch.tensor(images["pixel_values"], dtype=torch.float32),
        "pixel_attention_mask": torch.tensor(images["pixel_attention_mask"]),
        "spatial_shapes": torch.tensor(images["spatial_shapes"]),
        "input_ids": torch.from_numpy(ids).long(),
    }
