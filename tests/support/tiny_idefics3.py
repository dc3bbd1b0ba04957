"""Tiny random Idefics3 and SmolVLM models of transformers, and their results as numpy arrays.

Imports PyTorch, so it is used only where that is installed.
"""

from typing import Any

import numpy as np
import torch
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)

torch.set_num_threads(2)
IMAGE, PAD, VOCABULARY = 60, 2, 64

CASES: dict[str, dict[str, Any]] = {
    # Like SmolVLM: several query heads share keys and values.
    "grouped": {"side": 4, "shuffle": 2, "heads": 4, "kv_heads": 2, "head_dim": 8},
    # Head size different from width / heads, no sharing, squares of nine patches.
    "odd": {"side": 6, "shuffle": 3, "heads": 3, "kv_heads": 3, "head_dim": 6},
    # All heads share one key-value head; one token per tile.
    "one_kv_head": {"side": 2, "shuffle": 2, "heads": 3, "kv_heads": 1, "head_dim": 4},
    "smolvlm": {"side": 4, "shuffle": 2, "heads": 3, "kv_heads": 1, "head_dim": 8, "smolvlm": True},
}
AnyConfig = Idefics3Config | SmolVLMConfig
AnyModel = Idefics3ForConditionalGeneration | SmolVLMForConditionalGeneration


def config_of(
    side: int,
    shuffle: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    theta: float = 100000.0,
    smolvlm: bool = False,
) -> AnyConfig:
    vision = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 4 * side,
        "patch_size": 4,
    }
    text = {
        "model_type": "llama",
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "pad_token_id": PAD,
    }
    return (SmolVLMConfig if smolvlm else Idefics3Config)(
        vision_config=vision, text_config=text, scale_factor=shuffle, image_token_id=IMAGE
    )


def make(config: AnyConfig, seed: int = 0) -> AnyModel:
    """A model without parameters that are zero, one, or too small to reveal a mistake."""
    smolvlm = isinstance(config, SmolVLMConfig)
    kind = SmolVLMForConditionalGeneration if smolvlm else Idefics3ForConditionalGeneration
    model = kind(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.2 * torch.randn(parameter.shape, generator=generator)
            is_norm_weight = "norm" in name and name.endswith("weight")
            parameter.copy_(noise + 1 if is_norm_weight else noise)
    return model


def prompts(
    tiles: list[int], tile_tokens: int, after: list[int], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ids [B, N] and lengths: words, tiles each preceded by a word, words; padded on the right."""
    rng = np.random.default_rng(seed)
    rows = []
    for count, words in zip(tiles, after, strict=True):
        row = list(rng.integers(3, IMAGE, 2))
        for _ in range(count):
            row += [int(rng.integers(3, IMAGE)), *[IMAGE] * tile_tokens]
        rows.append(row + list(rng.integers(3, IMAGE, words)))
    lengths = np.asarray([len(row) for row in rows], np.int32)
    ids = np.full((len(rows), lengths.max()), PAD, np.int32)
    for row, target in zip(rows, ids, strict=True):
        target[: len(row)] = row
    return ids, lengths


def tile_pixels(tiles: list[int], size: int, seed: int) -> np.ndarray:
    """[B, T, S, S, 3]; missing tiles are zero, as padded by the processor."""
    rng = np.random.default_rng(seed)
    pixels = rng.uniform(-1, 1, (len(tiles), max(tiles), size, size, 3)).astype(np.float32)
    for row, count in zip(pixels, tiles, strict=True):
        row[count:] = 0
    return pixels


def logits(model: AnyModel, pixels, ids, lengths) -> np.ndarray:
    with torch.no_grad():
        return model(**_inputs(pixels, ids, lengths)).logits.numpy()


def loss_and_gradients(
    model: AnyModel, pixels, ids, lengths, answers
) -> tuple[float, dict[str, np.ndarray]]:
    """Mean cross-entropy of the token after each prompt."""
    model.zero_grad()
    out = model(**_inputs(pixels, ids, lengths)).logits
    last = out[torch.arange(len(ids)), torch.from_numpy(lengths).long() - 1]
    loss = torch.nn.functional.cross_entropy(last, torch.tensor(answers))
    loss.backward()
    return loss.item(), {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def _inputs(pixels: np.ndarray, ids: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    mask = np.arange(ids.shape[1])[None] < lengths[:, None]
    return {
        "pixel_values": torch.from_numpy(pixels).permute(0, 1, 4, 2, 3),
        "input_ids": torch.from_numpy(ids).long(),
        "attention_mask": torch.from_numpy(mask).long(),
        "use_cache": False,
    }
