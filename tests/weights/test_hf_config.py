"""Sizes read from config.json, compared with transformers' own configuration classes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import CLIPConfig as TheirCLIP
from transformers import MetaClip2Config as TheirMetaClip2
from transformers import SiglipConfig as TheirSiglip

from ttm_jax.errors import InputError
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.siglip import SigLIPConfig
from ttm_jax.models.transformer import Compute, TowerConfig
from ttm_jax.weights import hf_config


def read(fields: dict) -> SigLIPConfig | CLIPConfig:
    return hf_config.read(fields, Compute(), "config.json")


def assert_same_sizes(ours: SigLIPConfig | CLIPConfig, theirs: TheirSiglip | TheirCLIP) -> None:
    for tower in ("vision", "text"):
        a, b = getattr(ours, tower), getattr(theirs, f"{tower}_config")
        assert (a.width, a.depth) == (b.hidden_size, b.num_hidden_layers)
        assert (a.heads, a.mlp_dim) == (b.num_attention_heads, b.intermediate_size)
        assert a.norm_eps == b.layer_norm_eps
        assert a.activation == {"gelu_pytorch_tanh": "gelu_tanh"}.get(b.hidden_act, b.hidden_act)
    assert ours.image_size == theirs.vision_config.image_size
    assert ours.patch_size == theirs.vision_config.patch_size
    assert ours.vocab_size == theirs.text_config.vocab_size
    assert ours.text_length == theirs.text_config.max_position_embeddings
    if isinstance(ours, CLIPConfig):
        assert ours.embed_dim == theirs.projection_dim
        eos = theirs.text_config.eos_token_id
        assert ours.eos_token_id == (None if eos == 2 and theirs.model_type == "clip" else eos)
        assert (ours.vision.causal, ours.text.causal) == (False, True)
    else:
        assert ours.embed_dim == theirs.text_config.projection_size
        assert not ours.text.causal


LARGE = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text_config": None, "vision_config": None},
        # Like the published files: only what differs from the base model.
        {"text_config": LARGE, "vision_config": {**LARGE, "image_size": 384}},
        {
            "text_config": {"vocab_size": 256000, "hidden_act": "gelu_pytorch_tanh"},
            "vision_config": {"image_size": 256},
        },
        # SigLIP 2 giant: towers of different width
        {
            "text_config": {
                "hidden_size": 1152,
                "projection_size": 1536,
                "num_attention_heads": 16,
            },
            "vision_config": {"hidden_size": 1536, "num_attention_heads": 16},
        },
    ],
)
def test_siglip_as_transformers_reads_it(fields):
    assert_same_sizes(read({"model_type": "siglip", **fields}), TheirSiglip(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"projection_dim": 768, "vision_config": {**LARGE, "patch_size": 14, "image_size": 336}},
        {"text_config": {"eos_token_id": 2, "hidden_act": "gelu"}},
        # Early files have both forms, and the old one takes precedence, with its defaults.
        {
            "text_config": {"eos_token_id": 2, "hidden_size": 768},
            "text_config_dict": {"hidden_size": 512},
            "vision_config": {"patch_size": 14},
            "vision_config_dict": {"patch_size": 16},
        },
        {"text_config": {"eos_token_id": 2}, "text_config_dict": None},
        {"text_config": {"eos_token_id": 2}, "text_config_dict": {"eos_token_id": 2}},
    ],
)
def test_clip_as_transformers_reads_it(fields):
    # transformers modifies the dicts passed to it
    theirs = TheirCLIP(**{k: dict(v) if isinstance(v, dict) else v for k, v in fields.items()})
    assert_same_sizes(read({"model_type": "clip", **fields}), theirs)


@pytest.mark.parametrize("eos", [None, 2])
def test_metaclip_2_as_transformers_reads_it(eos):
    fields = {"projection_dim": 64, "vision_config": LARGE}
    if eos is not None:
        fields["text_config"] = {"eos_token_id": eos, "vocab_size": 901629, "hidden_act": "gelu"}
    ours = read({"model_type": "metaclip_2", **fields})
    assert_same_sizes(ours, TheirMetaClip2(**fields))
    assert (ours.eos_token_id, ours.layout) == (eos or 49407, "metaclip_2")


def test_a_size_may_be_a_pair():
    fields = {"model_type": "siglip", "vision_config": {"image_size": [384, 384]}}
    assert read(fields).image_size == 384


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, 'model_type is "None"'),
        ({"model_type": "siglip2", "vision_config": {"num_patches": 200}}, "is no square"),
        ({"model_type": "siglip2", "vision_config": {"vision_use_head": False}}, "vision_use_head"),
        (
            {"model_type": "clip_vision_model"},
            'expected "siglip", "siglip2", "clip" or "metaclip_2"',
        ),
        ({"model_type": "clip", "text_config": {"hidden_act": "relu"}}, 'hidden_act is "relu"'),
        ({"model_type": "clip", "text_config": [1]}, "text_config is .*expected an object"),
        ({"model_type": "clip", "text_config": {"eos_token_id": [1, 2]}}, "eos_token_id is"),
        ({"model_type": "siglip", "vision_config": {"image_size": [1, 2]}}, "image_size is"),
        ({"model_type": "siglip", "vision_config": {"patch_size": 0}}, "patch_size is 0"),
        ({"model_type": "siglip", "vision_config": {"num_channels": 1}}, "num_channels is 1"),
        ({"model_type": "siglip", "vision_config": {"hidden_size": "768"}}, "hidden_size is '768'"),
        (
            {"model_type": "siglip", "vision_config": {"num_attention_heads": 7}},
            "768 is not a multiple of 7 heads",
        ),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(fields, message):
    with pytest.raises(InputError, match=rf"^config\.json: .*{message}") as caught:
        read(fields)
    assert "\n" not in str(caught.value)


sizes = st.integers(1, 4096)


@st.composite
def towers(draw, causal: bool) -> TowerConfig:
    heads = draw(st.integers(1, 32))
    return TowerConfig(
        width=heads * draw(st.integers(1, 128)),
        depth=draw(st.integers(1, 1024)),
        heads=heads,
        mlp_dim=draw(sizes),
        activation=draw(st.sampled_from(["gelu_tanh", "gelu", "quick_gelu"])),
        norm_eps=draw(st.sampled_from([1e-6, 1e-5, 1e-12])),
        causal=causal,
    )


@given(towers(False), towers(False), st.tuples(*[sizes] * 5), st.integers(0, 64))
def test_siglip_survives_writing(vision, text, numbers, side):
    """With `side` > 0 a NaFlex model with a square grid of positions."""
    image, patch, vocabulary, length, width = numbers
    image = side * patch if side else image
    config = SigLIPConfig(image, patch, vision, text, vocabulary, length, width, side**2)
    assert read(hf_config.write(config)) == config


@given(
    towers(False),
    towers(True),
    st.tuples(*[sizes] * 5),
    st.none() | sizes,
    st.sampled_from(["clip", "metaclip_2", "open_clip"]),
)
def test_clip_survives_writing(vision, text, numbers, eos, layout):
    image, patch, vocabulary, length, width = numbers
    config = CLIPConfig(image, patch, vision, text, vocabulary, length, width, eos, layout)
    # What a config.json cannot say: CLIP's 2 means the largest id, MetaCLIP 2's is a token.
    if {"clip": eos == 2, "metaclip_2": eos is None, "open_clip": True}[layout]:
        with pytest.raises(InputError, match="captions that end at"):
            hf_config.write(config)
    else:
        assert read(hf_config.write(config)) == config
