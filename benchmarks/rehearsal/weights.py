"""Random weights with the tensor names, shapes and dtypes of the published checkpoints.

The tables are written out here, not taken from the package, so that they can contradict it. Names
are those of transformers' SiglipModel, CLIPModel and Idefics3ForConditionalGeneration.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np

Shapes = dict[str, tuple[int, ...]]
_DTYPES = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "I64": np.int64}


@dataclass(frozen=True)
class Tower:
    width: int
    mlp: int
    depth: int


def siglip_shapes(tower: Tower, patch: int, patches: int, vocabulary: int, length: int) -> Shapes:
    w, vision, text = tower.width, "vision_model.", "text_model."
    return {
        "logit_scale": (1,),
        "logit_bias": (1,),
        **_token_embeddings(text, w, vocabulary, length),
        **_layers(text, tower),
        **_norm(f"{text}final_layer_norm", w),
        **_linear(f"{text}head", w, w),
        f"{vision}embeddings.patch_embedding.weight": (w, 3, patch, patch),
        f"{vision}embeddings.patch_embedding.bias": (w,),
        f"{vision}embeddings.position_embedding.weight": (patches, w),
        **_layers(vision, tower),
        **_norm(f"{vision}post_layernorm", w),
        f"{vision}head.probe": (1, 1, w),
        f"{vision}head.attention.in_proj_weight": (3 * w, w),
        f"{vision}head.attention.in_proj_bias": (3 * w,),
        **_linear(f"{vision}head.attention.out_proj", w, w),
        **_norm(f"{vision}head.layernorm", w),
        **_linear(f"{vision}head.mlp.fc1", w, tower.mlp),
        **_linear(f"{vision}head.mlp.fc2", tower.mlp, w),
    }


def clip_shapes(
    image: Tower, words: Tower, embedding: int, patch: int, patches: int, vocabulary: int
) -> Shapes:
    """With the buffers `position_ids`, which the published files contain."""
    w, vision, text, length = image.width, "vision_model.", "text_model.", 77
    return {
        "logit_scale": (),
        **_token_embeddings(text, words.width, vocabulary, length),
        f"{text}embeddings.position_ids": (1, length),
        **_layers(text, words),
        **_norm(f"{text}final_layer_norm", words.width),
        "text_projection.weight": (embedding, words.width),
        f"{vision}embeddings.class_embedding": (w,),
        f"{vision}embeddings.patch_embedding.weight": (w, 3, patch, patch),
        f"{vision}embeddings.position_embedding.weight": (patches + 1, w),
        f"{vision}embeddings.position_ids": (1, patches + 1),
        **_norm(f"{vision}pre_layrnorm", w),
        **_layers(vision, image),
        **_norm(f"{vision}post_layernorm", w),
        "visual_projection.weight": (embedding, w),
    }


def smolvlm_shapes(config: Mapping[str, Any]) -> Shapes:
    """From the content of the published config.json."""
    vision, text = config["vision_config"], config["text_config"]
    w, patch, hidden = vision["hidden_size"], vision["patch_size"], text["hidden_size"]
    patches = (vision["image_size"] // patch) ** 2
    joined = w * config["scale_factor"] ** 2
    image = Tower(w, vision.get("intermediate_size", 3072), vision.get("num_hidden_layers", 12))
    keys = text["num_key_value_heads"] * hidden // text["num_attention_heads"]
    shapes = {
        "model.vision_model.embeddings.patch_embedding.weight": (w, 3, patch, patch),
        "model.vision_model.embeddings.patch_embedding.bias": (w,),
        "model.vision_model.embeddings.position_embedding.weight": (patches, w),
        **_layers("model.vision_model.", image),
        **_norm("model.vision_model.post_layernorm", w),
        "model.connector.modality_projection.proj.weight": (hidden, joined),
        "model.text_model.embed_tokens.weight": (text["vocab_size"], hidden),
        "model.text_model.norm.weight": (hidden,),
        "lm_head.weight": (text["vocab_size"], hidden),
    }
    for layer in range(text["num_hidden_layers"]):
        at, mlp = f"model.text_model.layers.{layer}.", text["intermediate_size"]
        shapes |= {
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
            f"{at}self_attn.q_proj.weight": (hidden, hidden),
            f"{at}self_attn.k_proj.weight": (keys, hidden),
            f"{at}self_attn.v_proj.weight": (keys, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, hidden),
            f"{at}mlp.gate_proj.weight": (mlp, hidden),
            f"{at}mlp.up_proj.weight": (mlp, hidden),
            f"{at}mlp.down_proj.weight": (hidden, mlp),
        }
    return shapes


def write_random(path: Path, shapes: Shapes, dtype: Literal["F32", "BF16"]) -> None:
    """A safetensors file, tensor after tensor: never more than one is in memory.

    The format: the length of the header, the header in JSON, the data
    (https://github.com/huggingface/safetensors#format).
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        kind = "I64" if name.endswith("position_ids") else dtype
        begin, end = end, end + math.prod(shape) * np.dtype(_DTYPES[kind]).itemsize
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            values = _values(name, shape, rng)
            file.write(values.astype(_DTYPES[header[name]["dtype"]]).tobytes())


def _values(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Scales that keep different inputs apart, so that margins are not all near zero."""
    if name.endswith("position_ids"):
        return np.arange(shape[-1])[None]
    if name == "logit_scale":  # SigLIP pools over padding: its random embeddings differ less
        return np.full(shape, 6.9 if shape else 4.7)
    if name == "logit_bias":
        return np.full(shape, -12.9)
    noise = rng.standard_normal(shape, np.float32)
    if len(shape) == 1:
        is_scale = name.endswith("weight")
        return is_scale + np.float32(0.02) * noise
    if "embed" in name and "patch_embedding" not in name:
        return noise * np.float32(0.1 if "position" in name else 0.7)
    return noise / np.float32(math.sqrt(math.prod(shape[1:])))


def _layers(prefix: str, tower: Tower) -> Shapes:
    shapes: Shapes = {}
    for layer in range(tower.depth):
        at = f"{prefix}encoder.layers.{layer}."
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            shapes |= _linear(f"{at}self_attn.{name}", tower.width, tower.width)
        shapes |= _norm(f"{at}layer_norm1", tower.width) | _norm(f"{at}layer_norm2", tower.width)
        shapes |= _linear(f"{at}mlp.fc1", tower.width, tower.mlp)
        shapes |= _linear(f"{at}mlp.fc2", tower.mlp, tower.width)
    return shapes


def _token_embeddings(prefix: str, width: int, vocabulary: int, length: int) -> Shapes:
    return {
        f"{prefix}embeddings.token_embedding.weight": (vocabulary, width),
        f"{prefix}embeddings.position_embedding.weight": (length, width),
    }


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
