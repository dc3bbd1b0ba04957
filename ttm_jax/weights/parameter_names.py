"""Parameter names of others and ours: one table per kind of model, used in both directions.

The names are those of transformers' SiglipModel, CLIPModel and Idefics3ForConditionalGeneration
(Apache-2.0), including their spelling, and of OpenCLIP's CLIP (MIT) with timm's (Apache-2.0) for
PE-Core.
"""

from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.pe_core import PECoreConfig
from ttm_jax.weights.checkpoint_files import Config
from ttm_jax.weights.tensor_layout import LAYER, Axes, Rule

# Ours -> theirs. PyTorch's Linear stores [out, in], its Conv2d [out, in, height, width].
VECTOR: Axes = ((0,),)
MATRIX: Axes = ((0,), (1,))
LINEAR: Axes = ((1,), (0,))  # ours [in, out]
TO_HEADS: Axes = ((1, 2), (0,))  # ours [width, head, d]
HEADS_BIAS: Axes = ((0, 1),)  # ours [head, d]
FROM_HEADS: Axes = ((2,), (0, 1))  # ours [head, d, width]
CONV: Axes = ((3,), (2,), (0,), (1,))  # ours [height, width, in, out]
FLAT_CONV: Axes = ((3,), (0, 1, 2))  # NaFlex takes patches that are flat already
POSITIONS: Axes = ((1,), (2,))  # ours [1, position, width]
CLASS_TOKEN: Axes = ((2,),)  # ours [1, 1, width]
PROBE: Axes = ((0,), (1,), (2,))
SCALAR: Axes = ()  # ours [1]

_NORM = (("weight", "scale", VECTOR), ("bias", "bias", VECTOR))
_LINEAR = (("weight", "kernel", LINEAR), ("bias", "bias", VECTOR))
_TO_HEADS = (("weight", "kernel", TO_HEADS), ("bias", "bias", HEADS_BIAS))
_FROM_HEADS = (("weight", "kernel", FROM_HEADS), ("bias", "bias", VECTOR))
_CONV = (("weight", "kernel", CONV), ("bias", "bias", VECTOR))
_ATTENTION = "MultiHeadDotProductAttention_0"

_BLOCK = (
    ("layer_norm1", "LayerNorm_0", _NORM),
    ("self_attn.q_proj", f"{_ATTENTION}/query", _TO_HEADS),
    ("self_attn.k_proj", f"{_ATTENTION}/key", _TO_HEADS),
    ("self_attn.v_proj", f"{_ATTENTION}/value", _TO_HEADS),
    ("self_attn.out_proj", f"{_ATTENTION}/out", _FROM_HEADS),
    ("layer_norm2", "LayerNorm_1", _NORM),
    ("mlp.fc1", "MlpBlock_0/Dense_0", _LINEAR),
    ("mlp.fc2", "MlpBlock_0/Dense_1", _LINEAR),
)
_MAP_HEAD = (
    ("attention.out_proj", f"{_ATTENTION}/out", _FROM_HEADS),
    ("layernorm", "LayerNorm_0", _NORM),
    ("mlp.fc1", "MlpBlock_0/Dense_0", _LINEAR),
    ("mlp.fc2", "MlpBlock_0/Dense_1", _LINEAR),
)
_OPEN_CLIP_BLOCK = (
    ("ln_1", "LayerNorm_0", _NORM),
    ("attn.out_proj", f"{_ATTENTION}/out", _FROM_HEADS),
    ("ln_2", "LayerNorm_1", _NORM),
    ("mlp.c_fc", "MlpBlock_0/Dense_0", _LINEAR),
    ("mlp.c_proj", "MlpBlock_0/Dense_1", _LINEAR),
)
_TIMM_BLOCK = (
    ("norm1", "LayerNorm_0", _NORM),
    ("attn.proj", f"{_ATTENTION}/out", _FROM_HEADS),
    ("norm2", "LayerNorm_1", _NORM),
    ("mlp.fc1", "MlpBlock_0/Dense_0", _LINEAR),
    ("mlp.fc2", "MlpBlock_0/Dense_1", _LINEAR),
)
_TIMM_POOL = (
    ("proj", f"{_ATTENTION}/out", _FROM_HEADS),
    ("norm", "LayerNorm_0", _NORM),
    ("mlp.fc1", "MlpBlock_0/Dense_0", _LINEAR),
    ("mlp.fc2", "MlpBlock_0/Dense_1", _LINEAR),
)
# Llama blocks; they have no biases.
_DECODER_BLOCK = (
    ("input_layernorm", "RMSNorm_0", _NORM[:1]),
    ("self_attn.q_proj", f"{_ATTENTION}/query", _TO_HEADS[:1]),
    ("self_attn.k_proj", f"{_ATTENTION}/key", _TO_HEADS[:1]),
    ("self_attn.v_proj", f"{_ATTENTION}/value", _TO_HEADS[:1]),
    ("self_attn.o_proj", f"{_ATTENTION}/out", _FROM_HEADS[:1]),
    ("post_attention_layernorm", "RMSNorm_1", _NORM[:1]),
    ("mlp.gate_proj", "MlpBlock_0/gate", _LINEAR[:1]),
    ("mlp.up_proj", "MlpBlock_0/up", _LINEAR[:1]),
    ("mlp.down_proj", "MlpBlock_0/down", _LINEAR[:1]),
)


def rules(config: Config) -> list[Rule]:
    """The table for this model and the kind of its folder."""
    if not isinstance(config, CLIPConfig):
        return _siglip(CONV if config.max_patches == 0 else FLAT_CONV)
    if isinstance(config, PECoreConfig):
        return _pe_core(config.class_token)
    return _open_clip() if config.layout == "open_clip" else _clip()


def _siglip(patches: Axes) -> list[Rule]:
    conv = (("weight", "kernel", patches), ("bias", "bias", VECTOR))
    return [
        *_towers(),
        *_layers("vision_model.embeddings.", "img/", (("patch_embedding", "embedding", conv),)),
        *_layers("vision_model.head.", "img/MAPHead_0/", _MAP_HEAD),
        *_packed("vision_model.head.attention.in_proj_", f"img/MAPHead_0/{_ATTENTION}/"),
        Rule("vision_model.head.probe", "img/MAPHead_0/probe", PROBE),
        *_layers("text_model.", "txt/", (("head", "head", _LINEAR),)),
        Rule("logit_scale", "t", VECTOR),
        Rule("logit_bias", "b", VECTOR),
    ]


def _clip() -> list[Rule]:
    return [
        *_towers(),
        Rule("vision_model.embeddings.patch_embedding.weight", "img/embedding/kernel", CONV),
        Rule("vision_model.embeddings.class_embedding", "img/cls", CLASS_TOKEN),
        *_layers("vision_model.", "img/", (("pre_layrnorm", "pre_norm", _NORM),)),
        Rule("visual_projection.weight", "img/head/kernel", LINEAR),
        Rule("text_projection.weight", "txt/head/kernel", LINEAR),
        Rule("logit_scale", "t", SCALAR),
    ]


def _open_clip() -> list[Rule]:
    image = "img/Transformer/"
    norms = (
        ("visual.ln_pre", "img/pre_norm", _NORM),
        ("visual.ln_post", f"{image}encoder_norm", _NORM),
    )
    return [
        *_open_clip_blocks("visual.transformer", image),
        *_layers("", "", norms),
        Rule("visual.conv1.weight", "img/embedding/kernel", CONV),
        Rule("visual.class_embedding", "img/cls", CLASS_TOKEN),
        Rule("visual.positional_embedding", "img/pos_embedding", POSITIONS),
        Rule("visual.proj", "img/head/kernel", MATRIX),
        *_open_clip_text(""),
        Rule("logit_scale", "t", SCALAR),
    ]


def _open_clip_text(prefix: str) -> list[Rule]:
    text = "txt/Encoder_0/"
    return [
        *_open_clip_blocks(f"{prefix}transformer", text),
        *_layers("", "", ((f"{prefix}ln_final", f"{text}encoder_norm", _NORM),)),
        Rule(f"{prefix}token_embedding.weight", "txt/Embed_0/embedding", MATRIX),
        Rule(f"{prefix}positional_embedding", "txt/pos_embedding", POSITIONS),
        Rule(f"{prefix}text_projection", "txt/head/kernel", MATRIX),
    ]


def _open_clip_blocks(theirs: str, ours: str) -> list[Rule]:
    blocks, attention = f"{theirs}.resblocks.{LAYER}.", f"{ours}encoderblock/{_ATTENTION}/"
    return [
        *_layers(blocks, f"{ours}encoderblock/", _OPEN_CLIP_BLOCK),
        *_packed(f"{blocks}attn.in_proj_", attention),
    ]


def _pe_core(class_token: bool) -> list[Rule]:
    trunk, image, pool = "visual.trunk.", "img/Transformer/", f"img/MAPHead_0/{_ATTENTION}/"
    norms = (("norm_pre", "img/pre_norm", _NORM), ("norm", f"{image}encoder_norm", _NORM))
    query = (("q", "query", _TO_HEADS),)
    blocks = f"{trunk}blocks.{LAYER}."
    return [
        *_layers(trunk, "", norms),
        *_layers(blocks, f"{image}encoderblock/", _TIMM_BLOCK),
        *_packed(f"{blocks}attn.qkv.", f"{image}encoderblock/{_ATTENTION}/"),
        *_layers(f"{trunk}attn_pool.", pool, query),
        *_packed(f"{trunk}attn_pool.kv.", pool, ("key", "value")),
        *_layers(f"{trunk}attn_pool.", "img/MAPHead_0/", _TIMM_POOL),
        Rule(f"{trunk}attn_pool.latent", "img/MAPHead_0/probe", PROBE),
        Rule(f"{trunk}patch_embed.proj.weight", "img/embedding/kernel", CONV),
        *([Rule(f"{trunk}cls_token", "img/cls", PROBE)] if class_token else []),
        Rule(f"{trunk}pos_embed", "img/pos_embedding", PROBE),
        *_layers(trunk, "img/", (("head", "head", _LINEAR),)),
        *_open_clip_text("text."),
        Rule("logit_scale", "t", SCALAR),
    ]


def smolvlm_rules() -> list[Rule]:
    """The table for Idefics3ForConditionalGeneration, which includes SmolVLM."""
    vision, text = "model.vision_model.", "model.text_model."
    norms = (
        (f"{vision}post_layernorm", "img/Transformer/encoder_norm", _NORM),
        (f"{text}norm", "txt/Decoder_0/decoder_norm", _NORM[:1]),
    )
    return [
        *_layers(f"{vision}embeddings.", "img/", (("patch_embedding", "embedding", _CONV),)),
        Rule(f"{vision}embeddings.position_embedding.weight", "img/pos_embedding", POSITIONS),
        *_layers(f"{vision}encoder.layers.{LAYER}.", "img/Transformer/encoderblock/", _BLOCK),
        Rule("model.connector.modality_projection.proj.weight", "img/head/kernel", LINEAR),
        Rule(f"{text}embed_tokens.weight", "txt/Embed_0/embedding", MATRIX),
        *_layers(f"{text}layers.{LAYER}.", "txt/Decoder_0/decoderblock/", _DECODER_BLOCK),
        *_layers("", "", norms),
        Rule("lm_head.weight", "txt/head/kernel", LINEAR),
    ]


def _towers() -> list[Rule]:
    """Parameters that both families have under the same names."""
    norms = (
        ("vision_model.post_layernorm", "img/Transformer/encoder_norm", _NORM),
        ("text_model.final_layer_norm", "txt/Encoder_0/encoder_norm", _NORM),
    )
    vision, text = "vision_model.embeddings.", "text_model.embeddings."
    return [
        *_layers(f"vision_model.encoder.layers.{LAYER}.", "img/Transformer/encoderblock/", _BLOCK),
        *_layers(f"text_model.encoder.layers.{LAYER}.", "txt/Encoder_0/encoderblock/", _BLOCK),
        *_layers("", "", norms),
        Rule(f"{vision}position_embedding.weight", "img/pos_embedding", POSITIONS),
        Rule(f"{text}position_embedding.weight", "txt/pos_embedding", POSITIONS),
        Rule(f"{text}token_embedding.weight", "txt/Embed_0/embedding", MATRIX),
    ]


def _layers(theirs: str, ours: str, table: tuple) -> list[Rule]:
    return [
        Rule(f"{theirs}{layer}.{name}", f"{ours}{our_layer}/{our_name}", axes)
        for layer, our_layer, leaves in table
        for name, our_name, axes in leaves
    ]


def _packed(
    theirs: str, ours: str, packed: tuple[str, ...] = ("query", "key", "value")
) -> list[Rule]:
    """Query, key and value as one matrix and one vector, as torch.nn.MultiheadAttention does."""
    return [
        Rule(f"{theirs}{name}", f"{ours}{layer}/{our_name}", axes, (part, len(packed)))
        for part, layer in enumerate(packed)
        for name, our_name, axes in _TO_HEADS
    ]
