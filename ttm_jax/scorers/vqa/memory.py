"""Conservative estimates of how many images with their questions fit into memory."""

from dataclasses import dataclass

import jax
from jax.sharding import Mesh

from ttm_jax.models.llama import DecoderConfig
from ttm_jax.models.smolvlm import SmolVLMConfig
from ttm_jax.models.transformer import Remat
from ttm_jax.training import memory_plan

_BYTES = 4
_SCORING_SHARE = 0.25  # fraction of the available memory


@dataclass(frozen=True)
class Row:
    """An image with its questions: the unit of work of a training step."""

    tiles: int
    prefix: int
    questions: int
    length: int


def images_at_once(config: SmolVLMConfig, prefix: int, mesh: Mesh) -> int:
    """Images per scoring batch within the memory budget; few on the CPU, to stay in its caches."""
    patches = config.side**2
    need = (
        memory_plan.tower_bytes(config.vision, patches, "block")
        + _decoder_bytes(config.text, prefix, prefix, "block")
        + _cache_bytes(config.text, prefix)
    )
    room = int(_SCORING_SHARE * memory_plan.available_bytes(mesh)) // need
    most = 4 if jax.default_backend() == "cpu" else 64
    return max(1, min(room, most)) * mesh.size


def activation_bytes(config: SmolVLMConfig, row: Row, rows: int, remat: Remat) -> int:
    """Memory kept for the backward pass of `rows` images with their questions."""
    text, asked = config.text, row.questions * row.length
    need = (
        row.tiles * memory_plan.tower_bytes(config.vision, config.side**2, remat)
        + _decoder_bytes(text, row.prefix, row.prefix, remat)
        + _decoder_bytes(text, asked, row.prefix + row.length, remat)
        + _cache_bytes(text, row.prefix) * (3 if remat == "none" else 2)
        + 3 * _BYTES * row.questions * text.vocab_size
    )
    return rows * need


def step_flops(config: SmolVLMConfig, params: dict[str, int], row: Row, rows: int) -> float:
    """Operations of a training step on so many rows: six per parameter and token.

    `params` are the numbers of parameters of the two towers, `img` and `txt`.
    """
    image = row.tiles * config.side**2 * params["img"]
    return 6.0 * rows * (image + (row.prefix + row.questions * row.length) * params["txt"])


def _cache_bytes(text: DecoderConfig, tokens: int) -> int:
    return 2 * _BYTES * text.depth * text.kv_heads * text.head_dim * tokens


def _decoder_bytes(text: DecoderConfig, tokens: int, keys: int, remat: Remat) -> int:
    """Memory of `tokens` tokens that attend to `keys` keys, from the values per token and layer."""
    dense = 2 * (text.heads + text.kv_heads) * text.head_dim + 2 * text.width + 3 * text.mlp_dim
    elementwise = 6 * text.width + 2 * text.mlp_dim
    attention = 3 * text.heads * keys
    working = dense + elementwise + attention
    layer = {"none": working, "dots": dense, "block": text.width}[remat]
    return _BYTES * tokens * (text.depth * layer + working)
