"""Parameter names of others and ours: one table per kind of model, used in both directions.

The names are those of transformers' SiglipModel, CLIPModel and Idefics3ForConditionalGeneration
(Apache-2.0), including their spelling, and of OpenCLIP's CLIP (MIT).
"""

from ttm_jax.models.clip import CLIPConfig
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
    return _open_clip() if config.layout == "open_clip" else _clip()


def _siglip(patches: Axes) -> list[Rule]:
    conv = (("weight", "kernel", patches), ("bias", "bias", VECTOR))
    return [
        *_towers(),
        *_layers("vision_model.embeddings.", "img/", (("patch_embedding", "embedding", conv),)),
        *_layers("vision_model.head.", "img/MAPHead_0/", _MAP_HEAD),
        *_packed("vision_model.head.attention.", f"img/MAPHead_0/{_ATTENTION}/"),
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
    image, text = "img/Transformer/", "txt/Encoder_0/"
    norms = (
        ("visual.ln_pre", "img/pre_norm", _NORM),
        ("visual.ln_post", f"{image}encoder_norm", _NORM),
        ("ln_final", f"{text}encoder_norm", _NORM),
    )
    blocks = (("visual.transformer", image), ("transformer", text))
    return [
        rule
        for theirs, ours in blocks
        for rule in (
            *_layers(f"{theirs}.resblocks.{LAYER}.", f"{ours}encoderblock/", _OPEN_CLIP_BLOCK),
            *_packed(f"{theirs}.resblocks.{LAYER}.attn.", f"{ours}encoderblock/{_ATTENTION}/"),
        )
    ] + [
        *_layers("", "", norms),
        Rule("visual.conv1.weight", "img/embedding/kernel", CONV),
        Rule("visual.class_embedding", "img/cls", CLASS_TOKEN),
        Rule("visual.positional_embedding", "img/pos_embedding", POSITIONS),
        Rule("visual.proj", "img/head/kernel", MATRIX),
        Rule("token_embedding.weight", "txt/Embed_0/embedding", MATRIX),
        Rule("positional_embedding", "txt/pos_embedding", POSITIONS),
        Rule("text_projection", "txt/head/kernel", MATRIX),
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


def _packed(theirs: str, ours: str) -> list[Rule]:
    """torch.nn.MultiheadAttention packs query, key and value into one matrix and one vector."""
    return [
        Rule(f"{theirs}in_proj_{name}", f"{ours}{layer}/{our_name}", axes, part)
        for part, layer in enumerate(("query", "key", "value"))
        for name, our_name, axes in _TO_HEADS
    ]
