"""big_vision's npz files: its own values, both layer layouts, and bit-exact round trips."""

import hashlib
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from parity import run
from paths import TESTS

from ttm_jax.errors import InputError
from ttm_jax.models.transformer import Compute, TowerConfig
from ttm_jax.weights import big_vision, huggingface
from ttm_jax.weights.checkpoint_files import Checkpoint

GOLDEN = TESTS / "golden"
STYLES = ("scan", "unrolled")


def golden(style: str) -> Path:
    return GOLDEN / f"big_vision_two_towers_{style}.npz"


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def parameters(path: Path) -> dict[str, np.ndarray]:
    return {name: x for name, x in arrays(path).items() if name.startswith("params/")}


def assert_same_bits(actual: dict, expected: dict) -> None:
    assert set(actual) == set(expected)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert actual[name].shape == array.shape
        assert actual[name].tobytes() == array.tobytes(), name


def assert_reproduces(checkpoint: Checkpoint, style: str) -> None:
    expected = arrays(golden(style))
    out = run(checkpoint, expected["in/image"], expected["in/text"])
    for ours, theirs in (("image", "zimg"), ("text", "ztxt"), ("logits", "logits")):
        np.testing.assert_allclose(
            out[ours], expected[f"out/{theirs}"], rtol=0, atol=1e-5, err_msg=ours
        )


@pytest.mark.parametrize("style", STYLES)
def test_golden_files_are_what_they_were(style):
    """Golden files must not change: replace one only together with its README."""
    known = {"scan": "a35613c48db6af01", "unrolled": "1c502b0e8cc3cd47"}
    assert hashlib.sha256(golden(style).read_bytes()).hexdigest()[:16] == known[style]


@pytest.mark.parametrize("style", STYLES)
def test_sizes_come_from_the_shapes(style):
    checkpoint = big_vision.load(golden(style), compute=Compute(remat="dots"))
    tower = TowerConfig(width=48, depth=3, heads=4, mlp_dim=96, compute=Compute(remat="dots"))
    assert checkpoint.family == "siglip"
    assert checkpoint.config.vision == checkpoint.config.text == tower
    assert (checkpoint.config.image_size, checkpoint.config.patch_size) == (32, 8)
    assert (checkpoint.config.vocab_size, checkpoint.config.text_length) == (512, 16)
    assert checkpoint.config.embed_dim == 48


@pytest.mark.parametrize("style", STYLES)
def test_reproduces_big_vision(style):
    assert_reproduces(big_vision.load(str(golden(style))), style)


@pytest.mark.parametrize("style", STYLES)
def test_round_trip_is_bit_exact(style, tmp_path):
    checkpoint = big_vision.load(golden(style))
    big_vision.save(tmp_path / "deep" / "out.npz", checkpoint.config, checkpoint.params, style)
    assert_same_bits(parameters(tmp_path / "deep" / "out.npz"), parameters(golden(style)))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out.npz"]


@pytest.mark.parametrize("style", STYLES)
def test_through_every_format_and_back(style, tmp_path):
    """npz -> ours -> Hugging Face -> ours -> npz in the other layout -> ours -> Hugging Face."""
    first = big_vision.load(golden(style))
    huggingface.save(tmp_path / "first", first.config, first.params)
    second = huggingface.load(tmp_path / "first")
    other = "unrolled" if style == "scan" else "scan"
    big_vision.save(tmp_path / "second.npz", second.config, second.params, other)
    assert set(parameters(tmp_path / "second.npz")) == set(parameters(golden(other)))
    third = big_vision.load(tmp_path / "second.npz")
    huggingface.save(tmp_path / "third", third.config, third.params)
    assert first.config == second.config == third.config
    assert_same_bits(flatten_dict(third.params, sep="/"), flatten_dict(first.params, sep="/"))
    files = [tmp_path / name / "model.safetensors" for name in ("first", "third")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert_reproduces(third, style)


@pytest.mark.parametrize("style", STYLES)
def test_transformers_gives_big_visions_logits(style, tmp_path):
    torch = pytest.importorskip("torch")
    from transformers import SiglipModel

    checkpoint = big_vision.load(golden(style))
    huggingface.save(tmp_path / "out", checkpoint.config, checkpoint.params)
    model, info = SiglipModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert {key: list(value) for key, value in info.items() if value} == {}
    expected = arrays(golden(style))
    with torch.no_grad():
        logits = model.eval()(
            pixel_values=torch.from_numpy(expected["in/image"]).permute(0, 3, 1, 2),
            input_ids=torch.from_numpy(expected["in/text"]).long(),
        ).logits_per_image
    np.testing.assert_allclose(logits, expected["out/logits"], rtol=0, atol=1e-5)


def test_hugging_face_to_npz_and_back_is_bit_exact(tmp_path):
    source = GOLDEN / "huggingface_siglip"
    first = huggingface.load(source)
    big_vision.save(tmp_path / "a.npz", first.config, first.params, "unrolled")
    second = big_vision.load(tmp_path / "a.npz")
    huggingface.save(tmp_path / "out", second.config, second.params)
    with (
        huggingface.safetensors_files.opened(source) as before,
        huggingface.safetensors_files.opened(tmp_path / "out") as after,
    ):
        names = list(before.shapes)
        assert_same_bits(
            {name: after.read(name) for name in after.shapes},
            {name: before.read(name) for name in names},
        )


# ---- variations of published files ---------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "opt/target/", "params/"])
@pytest.mark.parametrize("style", STYLES)
def test_prefixes_and_what_stands_beside_the_parameters(style, prefix, tmp_path):
    tree = {k.removeprefix("params/"): x for k, x in parameters(golden(style)).items()}
    stored = {f"{prefix}{name}": x for name, x in tree.items()}
    if prefix:
        stored["opt/state/step"] = np.array(7)
    np.savez(tmp_path / "a.npz", **stored)
    checkpoint = big_vision.load(tmp_path / "a.npz")
    expected = big_vision.load(golden(style)).params
    assert_same_bits(flatten_dict(checkpoint.params, sep="/"), flatten_dict(expected, sep="/"))


def test_double_position_embeddings_are_added(tmp_path):
    stored = parameters(golden("scan"))
    whole = stored["params/txt/pos_embedding"]
    second = np.random.default_rng(0).normal(size=whole.shape).astype(np.float32)
    stored["params/txt/Encoder_0/pos_embedding"] = second
    np.savez(tmp_path / "a.npz", **stored)
    loaded = big_vision.load(tmp_path / "a.npz").params["txt"]["pos_embedding"]
    np.testing.assert_array_equal(loaded, whole + second)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_files_become_float32_exactly(dtype, tmp_path):
    stored = {name: x.astype(dtype) for name, x in parameters(golden("scan")).items()}
    np.savez(tmp_path / "half.npz", **stored)
    np.savez(tmp_path / "exact.npz", **{n: x.astype(np.float32) for n, x in stored.items()})
    half, exact = (big_vision.load(tmp_path / f"{name}.npz") for name in ("half", "exact"))
    assert_same_bits(flatten_dict(half.params, sep="/"), flatten_dict(exact.params, sep="/"))


def test_image_size(tmp_path):
    """A grid of 4 patches of 8 fits images of 32 to 39 px; files that we wrote store the size."""
    path = golden("scan")
    asked = big_vision.load(path, image_size=36)
    assert asked.config.image_size == 36
    assert asked.params["img"]["pos_embedding"].shape == (1, 16, 48)
    big_vision.save(tmp_path / "a.npz", asked.config, asked.params)
    assert big_vision.load(tmp_path / "a.npz").config == asked.config
    larger = big_vision.load(path, image_size=48)
    assert larger.params["img"]["pos_embedding"].shape == (1, 36, 48)
    big_vision.save(tmp_path / "b.npz", larger.config, larger.params)
    assert big_vision.load(tmp_path / "b.npz").config == larger.config


def test_everything_that_does_not_fit_is_in_one_error(tmp_path):
    stored = parameters(golden("unrolled"))
    del stored["params/b"]
    stored["params/img/head/kernel"] = np.zeros((48, 4), np.float32)
    stored["params/t"] = np.zeros((2,), np.float32)
    del stored["params/txt/Encoder_0/encoderblock_2/LayerNorm_0/scale"]
    np.savez(tmp_path / "a.npz", **stored)
    with pytest.raises(InputError) as caught:
        big_vision.load(tmp_path / "a.npz")
    message = str(caught.value)
    assert "\n" not in message
    assert "2 missing (b, txt/Encoder_0/encoderblock_2/LayerNorm_0/scale)" in message
    assert "1 not used (img/head/kernel)" in message
    assert "1 of the wrong shape (t has shape [2], expected [1])" in message


def test_a_layer_that_is_not_there_is_missed(tmp_path):
    stored = {n: x for n, x in parameters(golden("unrolled")).items() if "encoderblock_1" not in n}
    np.savez(tmp_path / "a.npz", **stored)
    with pytest.raises(InputError, match=r"32 not used \(.*encoderblock_2"):
        big_vision.load(tmp_path / "a.npz")


def test_files_that_are_something_else(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        big_vision.load(tmp_path / "none.npz")
    path = tmp_path / "a.npz"
    path.write_bytes(golden("scan").read_bytes()[:1000])
    with pytest.raises(InputError, match="not an npz file or is incomplete"):
        big_vision.load(path)
    np.savez(path, weights=np.zeros(3))
    with pytest.raises(
        InputError, match=r"not a two-tower SigLIP.*img/embedding/kernel is missing"
    ):
        big_vision.load(path)
    np.savez(path, weights=np.array([{"code": 1}], dtype=object))
    with pytest.raises(InputError, match="weights holds pickled objects"):
        big_vision.load(path)
    stored = parameters(golden("scan"))
    stored["params/img/pos_embedding"] = np.zeros((1, 15, 48), np.float32)
    np.savez(path, **stored)
    with pytest.raises(InputError, match="15 image positions are not a square"):
        big_vision.load(path)


def test_what_big_vision_cannot_hold_is_not_written(tmp_path):
    siglip = big_vision.load(golden("scan"))
    text = replace(siglip.config.text, activation="gelu")
    with pytest.raises(InputError, match=r"tanh gelu.*Hugging Face folder"):
        big_vision.save(tmp_path / "a.npz", replace(siglip.config, text=text), siglip.params)
    with pytest.raises(InputError, match=r"must end in \.npz"):
        big_vision.save(tmp_path / "a", siglip.config, siglip.params)
    clip = huggingface.load(GOLDEN / "huggingface_clip")
    with pytest.raises(InputError, match="no CLIP"):
        big_vision.save(tmp_path / "a.npz", clip.config, clip.params)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    checkpoint = big_vision.load(golden("scan"))
    path = tmp_path / "a.npz"
    path.write_text("old")

    def full_disk(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="no space"):
        big_vision.save(path, checkpoint.config, checkpoint.params)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
