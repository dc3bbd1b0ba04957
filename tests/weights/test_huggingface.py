"""Hugging Face folders: strict reading, writing, and bit-exact round trips."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from paths import TESTS
from safetensors.numpy import load_file, save_file

from ttm_jax.errors import InputError
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import huggingface, safetensors_files
from ttm_jax.weights.checkpoint_files import Tensors, expected_shapes
from ttm_jax.weights.parameter_names import rules
from ttm_jax.weights.positions import at_image_size

GOLDEN = TESTS / "golden"
FAMILIES = ("siglip", "clip")


@pytest.fixture(params=FAMILIES)
def source(request) -> Path:
    return GOLDEN / f"huggingface_{request.param}"


@pytest.fixture
def folder(source, tmp_path) -> Path:
    """A copy that a test may damage."""
    copy = tmp_path / "model"
    copy.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(source / name, copy / name)
    return copy


def tensors_of(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def assert_same_bits(actual: dict, expected: dict) -> None:
    assert set(actual) == set(expected)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert actual[name].shape == array.shape
        assert actual[name].tobytes() == array.tobytes(), name


# ---- reading and writing -------------------------------------------------------------------------


def test_load_gives_float32_arrays_in_the_models_own_tree(source):
    checkpoint = huggingface.load(source, compute=Compute(remat="block"))
    flat = flatten_dict(checkpoint.params, sep="/")
    assert checkpoint.source == str(source)
    assert checkpoint.family in source.name
    assert checkpoint.config.text.compute.remat == "block"
    assert {name: x.shape for name, x in flat.items()} == expected_shapes(checkpoint.config)
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in flat.values())


def test_the_table_names_every_parameter_once(source):
    config = huggingface.load(source).config
    table = rules(config)
    assert sorted(rule.ours for rule in table) == sorted(expected_shapes(config))
    assert len({(rule.theirs, rule.part) for rule in table}) == len(table)


def test_round_trip_is_bit_exact(source, tmp_path):
    checkpoint = huggingface.load(source)
    huggingface.save(tmp_path / "out", checkpoint.config, checkpoint.params)
    assert_same_bits(tensors_of(tmp_path / "out"), tensors_of(source))
    again = huggingface.load(tmp_path / "out")
    assert again.config == checkpoint.config


def test_arrays_on_a_device_can_be_saved_and_the_files_be_read_by_all(source, tmp_path):
    checkpoint = huggingface.load(source)
    params = jax.tree.map(jnp.asarray, checkpoint.params)
    huggingface.save(tmp_path / "out", checkpoint.config, params)
    assert_same_bits(tensors_of(tmp_path / "out"), tensors_of(source))
    plain = tmp_path / "plain"
    plain.write_text("a file as this user makes them")
    modes = {path.stat().st_mode for path in [*(tmp_path / "out").iterdir(), plain]}
    assert len(modes) == 1


def test_saving_copies_the_tokenizer_and_leaves_other_files(folder, tmp_path):
    (folder / "tokenizer.json").write_text('{"a": 1}')
    (folder / "preprocessor_config.json").write_text('{"size": {"height": 24,  "width": 24}}')
    (folder / "spiece.model").write_bytes(b"\x00\x01")
    (folder / "optimizer.pt").write_bytes(b"no")
    checkpoint = huggingface.load(folder)
    config = replace(checkpoint.config, image_size=24)
    params = at_image_size(checkpoint, 24).params
    huggingface.save(tmp_path / "deep" / "out", config, params, extra_files_from=folder)
    out = {path.name: path.read_bytes() for path in (tmp_path / "deep" / "out").iterdir()}
    assert sorted(out) == [
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "spiece.model",
        "tokenizer.json",
    ]
    for name in ("tokenizer.json", "preprocessor_config.json", "spiece.model"):
        assert out[name] == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"size": {"height": 24, "width": 24}}, {"size": {"height": 40, "width": 40}}),
        (
            {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}},
            {"size": {"shortest_edge": 40}, "crop_size": {"height": 40, "width": 40}},
        ),
        ({"size": 24, "crop_size": 24, "do_resize": True}, {"size": 40, "crop_size": 40}),
        ({"size": 48, "crop_size": 40}, {"size": 48, "crop_size": 40}),
        ({"image_processor": {"size": 24}}, {"image_processor": {"size": 40}}),
        ({"do_resize": True}, {}),
    ],
)
def test_saving_a_resampled_model_resizes_its_image_processor(tmp_path, before, after):
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "huggingface_siglip", folder)
    name = "processor_config.json" if "image_processor" in before else "preprocessor_config.json"
    (folder / name).write_text(json.dumps(before))
    checkpoint = huggingface.load(folder, image_size=40)
    huggingface.save(tmp_path / "out", checkpoint.config, checkpoint.params, folder)
    assert json.loads((tmp_path / "out" / name).read_text()) == {**before, **after}
    assert huggingface.load(tmp_path / "out").config == checkpoint.config


def test_saving_replaces_nothing(source, tmp_path):
    checkpoint = huggingface.load(source)
    (tmp_path / "empty").mkdir()
    huggingface.save(tmp_path / "empty", checkpoint.config, checkpoint.params)
    with pytest.raises(InputError, match="exists already"):
        huggingface.save(tmp_path / "empty", checkpoint.config, checkpoint.params)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        huggingface.save(tmp_path / "file", checkpoint.config, checkpoint.params)


def test_a_failed_save_leaves_nothing(source, tmp_path, monkeypatch):
    checkpoint = huggingface.load(source)

    def full_disk(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(huggingface, "write_json", full_disk)
    with pytest.raises(OSError, match="no space"):
        huggingface.save(tmp_path / "out", checkpoint.config, checkpoint.params)
    assert list(tmp_path.iterdir()) == []


def test_parameters_that_do_not_fit_are_not_saved(source, tmp_path):
    checkpoint = huggingface.load(source)
    params = {**checkpoint.params, "t": np.zeros((2,), np.float32), "extra": np.zeros((1,))}
    with pytest.raises(
        InputError, match=r"1 not used \(extra\).*t has shape \[2\], expected \[1\]"
    ):
        huggingface.save(tmp_path / "out", checkpoint.config, params)
    assert list(tmp_path.iterdir()) == []


# ---- variations of published files ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_files_become_float32_exactly(folder, dtype):
    stored = {name: x.astype(dtype) for name, x in tensors_of(folder).items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    half = huggingface.load(folder)
    exact = {name: x.astype(np.float32) for name, x in stored.items()}
    save_file(exact, folder / "model.safetensors", metadata={"format": "pt"})
    assert_same_bits(
        flatten_dict(half.params, sep="/"),
        flatten_dict(huggingface.load(folder).params, sep="/"),
    )


def test_quantised_files_are_refused(folder):
    stored = tensors_of(folder)
    name = "text_model.encoder.layers.1.mlp.fc1.weight"
    stored[name] = stored[name].astype(np.int8)
    save_file(stored, folder / "model.safetensors")
    with pytest.raises(InputError, match=rf"{name} is stored as int8"):
        huggingface.load(folder)


def test_shards(folder):
    whole = huggingface.load(folder)
    stored = tensors_of(folder)
    (folder / "model.safetensors").unlink()
    names = sorted(stored)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: stored[name] for name in part}, folder / file)
        weight_map.update(dict.fromkeys(part, file))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    shards = huggingface.load(folder)
    assert_same_bits(flatten_dict(shards.params, sep="/"), flatten_dict(whole.params, sep="/"))

    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(InputError, match=r"names missing files: model-00002-of-00002\.safetensors"):
        huggingface.load(folder)
    index.write_text("[]")
    with pytest.raises(InputError, match="no weight_map"):
        huggingface.load(folder)


def test_position_ids_of_old_files_are_ignored_and_nothing_else(folder):
    stored = tensors_of(folder)
    for tower in ("text_model", "vision_model"):
        stored[f"{tower}.embeddings.position_ids"] = np.arange(16)[None]
    save_file(stored, folder / "model.safetensors")
    huggingface.load(folder)
    stored["text_model.embeddings.token_ids"] = np.arange(16)[None]
    save_file(stored, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"1 not used \(text_model\.embeddings\.token_ids\)$"):
        huggingface.load(folder)


def test_everything_that_does_not_fit_is_in_one_error(folder):
    stored = tensors_of(folder)
    del stored["logit_scale"]
    del stored["text_model.final_layer_norm.bias"]
    stored["vision_model.post_layernorm.weight"] = np.zeros((3,), np.float32)
    stored |= {f"classifier.{n:02}": np.zeros((1,), np.float32) for n in range(12)}
    save_file(stored, folder / "model.safetensors")
    with pytest.raises(InputError) as caught:
        huggingface.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(folder))
    assert "2 missing (" in message
    assert "logit_scale" in message
    assert "text_model.final_layer_norm.bias" in message
    assert "12 not used (" in message
    assert "classifier.09 and 2 more)" in message
    assert "vision_model.post_layernorm.weight has shape [3], expected [16]" in message


def test_a_missing_or_extra_layer_is_an_error(folder):
    fields = json.loads((folder / "config.json").read_text())
    fields["text_config"]["num_hidden_layers"] = 3
    fields["vision_config"]["num_hidden_layers"] = 1
    (folder / "config.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match=r"16 missing \(.*16 not used \("):
        huggingface.load(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin"])
def test_pickles_are_refused_with_the_way_out(folder, name):
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(InputError, match=rf"{name}.*never loaded.*save_pretrained") as caught:
        huggingface.load(folder)
    assert "\n" not in str(caught.value)


def test_broken_folders(folder, tmp_path):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"model\.safetensors is not a complete safetensors file"):
        huggingface.load(folder)
    weights.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="download it again"):
        huggingface.load(folder)
    weights.unlink()
    with pytest.raises(InputError, match=r"has neither model\.safetensors nor"):
        huggingface.load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        huggingface.load(folder)
    with pytest.raises(InputError, match=r"config\.json does not exist"):
        huggingface.load(tmp_path)


def test_importing_is_light():
    """Neither PyTorch nor the hub nor transformers is needed to read a local folder."""
    heavy = ("torch", "transformers", "huggingface_hub", "fsspec", "scipy", "matplotlib")
    code = (
        "import sys, ttm_jax.weights.huggingface, ttm_jax.weights.big_vision\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- with PyTorch --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch_models():
    pytest.importorskip("torch")
    import tiny_torch

    return tiny_torch


@pytest.mark.parametrize(
    "name", ["siglip", "siglip_gelu_with_rest", "clip", "clip_gelu_legacy_eos", "metaclip_2"]
)
def test_transformers_loads_what_we_save(torch_models, tmp_path, name):
    model = torch_models.make(torch_models.CONFIGS[name], seed=2)
    model.save_pretrained(tmp_path / "theirs")
    checkpoint = huggingface.load(tmp_path / "theirs")
    huggingface.save(tmp_path / "ours", checkpoint.config, checkpoint.params)
    again, info = type(model).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert {key: list(value) for key, value in info.items() if value} == {}
    assert_same_bits(torch_models.state(again), torch_models.state(model))
    pixels, ids = torch_models.inputs(model.config, 2, 3, 16, seed=1)
    np.testing.assert_array_equal(
        torch_models.forward(again, pixels, ids)["logits"],
        torch_models.forward(model, pixels, ids)["logits"],
    )


def test_shards_of_transformers(torch_models, tmp_path):
    model = torch_models.make(torch_models.CONFIGS["clip"], seed=3)
    model.save_pretrained(tmp_path, max_shard_size="60KB")
    assert len(safetensors_files.weight_files(tmp_path)) > 1
    state = torch_models.state(model)
    tensors = Tensors({key: x.shape for key, x in state.items()}, state.__getitem__)
    expected = huggingface.convert(model.config.to_dict(), tensors, "memory").params
    loaded = huggingface.load(tmp_path).params
    assert_same_bits(flatten_dict(loaded, sep="/"), flatten_dict(expected, sep="/"))
