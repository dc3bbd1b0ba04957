"""OpenCLIP's folders: what is read, what is refused, round trips, and parity with OpenCLIP itself.

OpenCLIP is compared directly where it is installed, and through tests/golden/open_clip everywhere.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from open_clip_parity import assert_golden, full_size, round_trip
from paths import TESTS
from safetensors.numpy import load_file

from ttm_jax.errors import InputError
from ttm_jax.models.transformer import Compute
from ttm_jax.report.checkpoints.diff import diff
from ttm_jax.weights import huggingface, model_folders, open_clip_config

GOLDEN = TESTS / "golden" / "open_clip"
PLAIN = {"embed_dim": 512, "vision_cfg": {"patch_size": 32}, "text_cfg": {}}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(GOLDEN, tmp_path / "model")
    (tmp_path / "model" / "expected.npz").unlink()
    return tmp_path / "model"


def read(model: dict):
    return open_clip_config.read_config(model, Compute(), "open_clip_config.json")


# ---- without OpenCLIP ----------------------------------------------------------------------------


def test_golden_logits_and_gradients():
    checkpoint = assert_golden(GOLDEN)
    assert (checkpoint.family, checkpoint.config.layout) == ("clip", "open_clip")


def test_round_trip_is_bit_exact_and_keeps_the_settings(folder, tmp_path):
    fields = json.loads((folder / "open_clip_config.json").read_text())
    fields["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"clean": "whitespace"}
    (folder / "open_clip_config.json").write_text(json.dumps(fields))
    (folder / "merges.txt").write_text("#version: 0.2")
    checkpoint = model_folders.load(folder)
    model_folders.save(tmp_path / "out", checkpoint.config, checkpoint.params, folder)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["merges.txt", "open_clip_config.json", "open_clip_model.safetensors"]
    before, after = (
        load_file(f / "open_clip_model.safetensors") for f in (folder, tmp_path / "out")
    )
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert (after[name].shape, after[name].tobytes()) == (array.shape, array.tobytes()), name
    again = json.loads((tmp_path / "out" / "open_clip_config.json").read_text())
    assert again["preprocess_cfg"] == fields["preprocess_cfg"]
    assert again["model_cfg"]["text_cfg"]["tokenizer_kwargs"] == {"clean": "whitespace"}
    assert model_folders.load(tmp_path / "out").config == checkpoint.config
    assert all(change.moved == 0 for change in diff(folder, tmp_path / "out"))


def test_a_folder_with_both_formats_is_read_as_transformers(folder):
    """As LAION's on the hub; but timm's config.json, without a model_type, is another thing."""
    (folder / "config.json").write_text('{"architecture": "vit_base_patch32_clip_224"}')
    (folder / "model.safetensors").write_bytes(b"timm's image tower")
    assert model_folders.load(folder).config.layout == "open_clip"
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(TESTS / "golden" / "huggingface_clip" / name, folder / name)
    found = model_folders.load(folder)
    assert found.config == huggingface.load(TESTS / "golden" / "huggingface_clip").config
    assert found.config.layout == "clip"


def test_another_image_size_resamples_the_positions(folder, tmp_path):
    checkpoint = model_folders.load(folder, image_size=24)
    assert checkpoint.config.patches == 9
    model_folders.save(tmp_path / "out", checkpoint.config, checkpoint.params, folder)
    fields = json.loads((tmp_path / "out" / "open_clip_config.json").read_text())
    assert fields["model_cfg"]["vision_cfg"]["image_size"] == 24
    assert model_folders.load(tmp_path / "out").config == checkpoint.config


def test_sizes_of_published_models():
    """Defaults as in OpenCLIP; sizes as in its ViT-B-32 and ViT-bigG-14."""
    base = read(PLAIN)
    assert (base.image_size, base.patch_size, base.patches) == (224, 32, 49)
    assert (base.vision.width, base.vision.heads, base.vision.mlp_dim) == (768, 12, 3072)
    assert (base.text.width, base.text.heads, base.text.causal) == (512, 8, True)
    assert (base.vision.activation, base.vision.norm_eps) == ("gelu", 1e-5)
    assert (base.vocab_size, base.text_length, base.eos_token_id) == (49408, 77, None)
    vision = {"width": 1664, "head_width": 104, "layers": 48, "mlp_ratio": 4.9231, "patch_size": 14}
    text = {"width": 1280, "heads": 20, "layers": 32}
    huge = read({"embed_dim": 1280, "quick_gelu": True, "vision_cfg": vision, "text_cfg": text})
    assert (huge.vision.heads, huge.vision.mlp_dim, huge.text.mlp_dim) == (16, 8192, 5120)
    assert {huge.vision.activation, huge.text.activation} == {"quick_gelu"}
    assert read(open_clip_config.write_config(huge)) == huge
    odd = replace(huge, vision=replace(huge.vision, width=1408, mlp_dim=6144))
    assert int(1408 * open_clip_config.write_config(odd)["vision_cfg"]["mlp_ratio"]) == 6144
    real_eos = {**PLAIN, "text_cfg": {"pool_type": "eos", "eos_id": 2, "vocab_size": 901629}}
    assert read(real_eos).eos_token_id == 2


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        (
            "vision_cfg",
            {"timm_pool": "map", "timm_model_name": "vit_base_patch16_siglip_224"},
            "vision_cfg.timm_model_name is 'vit_base_patch16_siglip_224'",
        ),
        ("vision_cfg", {"layers": [3, 4, 6, 3]}, "a ResNet"),
        ("vision_cfg", {"attentional_pool": True}, "attentional_pool is True"),
        ("vision_cfg", {"pool_type": "avg", "no_ln_pre": True}, "no_ln_pre is True"),
        ("vision_cfg", {"ls_init_value": 1e-4}, r"ls_init_value is 0\.0001"),
        ("vision_cfg", {"mlp_ratio": "4"}, "mlp_ratio is '4'"),
        ("vision_cfg", {"head_width": 0}, "head_width is 0"),
        ("vision_cfg", {"new_thing": 3}, "new_thing is 3"),
        ("text_cfg", {"hf_model_name": "xlm-roberta-base"}, "hf_model_name is 'xlm-roberta-base'"),
        ("text_cfg", {"embed_cls": True}, "embed_cls is True"),
        ("text_cfg", {"no_causal_mask": True, "pool_type": "last"}, "no_causal_mask is True"),
        ("text_cfg", {"pool_type": "last"}, "pool_type is 'last'.*'argmax' or 'eos'"),
        ("", {"custom_text": True}, "model_cfg.custom_text is True"),
        ("", {"init_logit_bias": -10}, "init_logit_bias is -10"),
        ("", {"text_cfg": None}, "has no text_cfg"),
    ],
)
def test_what_is_not_a_plain_vit_is_refused_by_name(section, change, message):
    model = {**PLAIN, section: {**PLAIN[section], **change}} if section else {**PLAIN, **change}
    with pytest.raises(InputError, match=rf"^open_clip_config\.json: .*{message}") as caught:
        read(model)
    assert "\n" not in str(caught.value)


def test_broken_folders(folder):
    weights = folder / "open_clip_model.safetensors"
    weights.rename(folder / "open_clip_pytorch_model.bin")
    with pytest.raises(InputError, match=r"open_clip_pytorch_model\.bin, a pickle.*never loaded"):
        model_folders.load(folder)
    (folder / "open_clip_pytorch_model.bin").unlink()
    with pytest.raises(InputError, match=r"has no open_clip_model\.safetensors"):
        model_folders.load(folder)
    (folder / "open_clip_config.json").write_text('{"model_cfg": 3}')
    with pytest.raises(InputError, match=r"model_cfg is 3; expected a JSON object"):
        model_folders.load(folder)


# ---- with OpenCLIP -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("torch")
    try:
        import tiny_open_clip
    except ImportError as error:
        pytest.skip(f"open_clip_torch is not installed (see tiny_open_clip.py): {error}")
    return tiny_open_clip


@pytest.mark.parametrize("case", ["gelu", "quick_gelu", "eos"])
def test_logits_gradients_and_saving(theirs, case, tmp_path):
    config = theirs.CASES[case]
    round_trip(theirs, theirs.make(config, seed=0), config, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ViT-B-32", "ViT-B-16-quickgelu"])
def test_full_size(theirs, name, tmp_path):
    full_size(theirs, name, tmp_path)
