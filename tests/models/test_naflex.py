"""SigLIP 2 NaFlex: images of any aspect, compared with transformers' Siglip2Model."""

import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from model_folders import make_folder
from parity import quick_jit, run
from PIL import Image
from safetensors.numpy import load_file

import ttm_jax
from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.naflex import NaflexProcessor, grid_of
from ttm_jax.load import load_model
from ttm_jax.models.naflex import resized_positions
from ttm_jax.models.siglip import SigLIP
from ttm_jax.scorers.contrastive.pixels import to_float
from ttm_jax.weights import big_vision, huggingface
from ttm_jax.weights.checkpoint_files import Tensors

pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
SIZES = [(50, 30), (64, 64), (100, 7), (11, 90), (16, 16), (300, 1)]  # width, height
CAPTIONS = ["a red circle above a blue star", "a blue star above a red circle"]
MOST = 20

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)


def pictures(seed: int = 0) -> list[Image.Image]:
    rng = np.random.default_rng(seed)
    return [Image.fromarray(rng.integers(0, 256, (h, w, 3), np.uint8)) for w, h in SIZES]


# ---- without PyTorch -----------------------------------------------------------------------------


def test_grids():
    assert grid_of(640, 480, 16, 256) == (14, 18)
    assert grid_of(480, 640, 16, 256) == (18, 14)
    assert grid_of(16, 16, 16, 256) == (16, 16), "small pictures are enlarged"
    assert grid_of(1, 10_000, 16, 256) == (256, 1)


@pytest.mark.parametrize("size", SIZES)
def test_packed(size):
    processor = NaflexProcessor(4, MOST)
    picture = pictures()[SIZES.index(size)]
    rows, columns = grid_of(*size, 4, MOST)
    packed = processor(picture)
    assert packed.shape == (MOST, 4 * 4 * 3 + 4)
    assert (packed[:, -4:] == [0, rows, 0, columns]).all()
    assert (packed[rows * columns :, :-4] == 0).all()
    resized = np.asarray(picture.resize((columns * 4, rows * 4), Image.Resampling.BILINEAR))
    last = packed[rows * columns - 1, :-4].reshape(4, 4, 3)
    np.testing.assert_array_equal(last, resized[-4:, -4:])
    x = np.asarray(to_float(jnp.asarray(packed[None]), processor))[0]
    assert x.shape == (MOST, 4 * 4 * 3 + 2)
    assert (x[:, -2:] == [rows, columns]).all()
    close(x[:, :-2], packed[:, :-4] / 127.5 - 1)


def test_many_patches_need_two_bytes():
    packed = NaflexProcessor(2, 700)(Image.new("RGB", (2, 4000)))
    assert packed[0, -4:].tolist() == [2, 188, 0, 1]
    assert np.asarray(to_float(jnp.asarray(packed[None]), None))[0, 0, -2:].tolist() == [700, 1]


def test_positions_of_the_same_grid_are_unchanged():
    grid = jnp.asarray(np.random.default_rng(0).normal(size=(1, 25, 3)).astype(np.float32))
    same = resized_positions(grid, jnp.full((1, 2), 5.0), 25, "highest")
    close(same[0], grid[0])


def test_square_images_score_as_with_the_fixed_resolution_model(tmp_path):
    """The same weights: only how images come in is different."""
    fixed = huggingface.load(make_folder(tmp_path, "siglip"), image_size=48)
    config = fixed.config
    flexible = replace(fixed, config=replace(config, max_patches=config.patches))
    side, p, n = config.image_size, config.patch_size, config.image_size // config.patch_size
    pixels = np.random.default_rng(0).uniform(-1, 1, (2, side, side, 3)).astype(np.float32)
    patches = pixels.reshape(2, n, p, n, p, 3).swapaxes(2, 3).reshape(2, n * n, -1)
    packed = np.concatenate([patches, np.full((2, n * n, 2), n, np.float32)], axis=-1)
    ids = np.full((2, config.text_length), 5, np.int32)
    expected = run(fixed, pixels, ids)
    for name, array in run(flexible, packed, ids).items():
        close(array, expected[name], err_msg=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint as on the hub, with the image processor's file."""
    path = tmp_path_factory.mktemp("naflex")
    start = huggingface.load(make_folder(path, "siglip"), image_size=32)
    config = replace(start.config, max_patches=start.config.patches)
    huggingface.save(path / "flex", config, start.params, extra_files_from=path / "model")
    settings = {"patch_size": config.patch_size, "max_num_patches": 6, "resample": 2}
    settings |= {"image_processor_type": "Siglip2ImageProcessor"}
    (path / "flex" / "preprocessor_config.json").write_text(json.dumps(settings))
    return path / "flex"


def groups() -> GroupedDataset:
    images = pictures()[:4]
    made = [
        Group(str(g), tuple(images[2 * g : 2 * g + 2]), tuple(CAPTIONS), (0, 1)) for g in (0, 1)
    ]
    return GroupedDataset.from_groups(made)


@pytest.mark.parametrize("train", ["all", "image:last:1", "heads", "lora"])
def test_one_iteration(folder, tmp_path, train):
    model = load_model(folder)
    assert (model.config.max_patches, model.config.patches) == (6, 4)
    before = model.score(pictures(), CAPTIONS)
    assert before.shape == (6, 2)
    config = TTMConfig(lr=1e-3, iterations=1, epochs=2, batch_groups=2, tau_1=0.0, train=train)
    result = ttm_jax.run_ttm(model, groups(), config, devices=jax.devices()[:1])
    after = result.model.score(pictures(), CAPTIONS)
    assert np.abs(after - before).max() > 1e-5
    result.model.save(tmp_path / "saved")
    again = load_model(tmp_path / "saved")
    assert again.config == model.config
    np.testing.assert_array_equal(again.score(pictures(), CAPTIONS), after)


def test_round_trip_is_bit_exact(folder, tmp_path):
    checkpoint = huggingface.load(folder)
    huggingface.save(tmp_path / "out", checkpoint.config, checkpoint.params)
    before, after = (load_file(f / "model.safetensors") for f in (folder, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)
    assert huggingface.load(tmp_path / "out").config == checkpoint.config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_num_patches": 0}, "0 patches or pixels"),
        ({"patch_size": "16"}, "'16' patches or pixels"),
        ({"resample": 9}, "resample is 9"),
        ({"image_mean": [0.5]}, "image_mean is"),
        ({"image_std": 0}, "image_std is"),
        ({"do_resize": False}, "do_resize is False"),
    ],
)
def test_image_settings_that_cannot_be_used(tmp_path, settings, message):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=message) as caught:
        NaflexProcessor.from_folder(tmp_path)
    assert "\n" not in str(caught.value)


def test_what_does_not_go_together(folder, tmp_path):
    model = load_model(folder)
    for settings, message in (
        ({"image_size": 32}, "images of any size"),
        ({"resize": "big_vision"}, "leave out resize"),
    ):
        with pytest.raises(InputError, match=message):
            load_model(folder, **settings)
    with pytest.raises(InputError, match="not as an npz"):
        big_vision.save(tmp_path / "x.npz", model.config, model.params)
    with pytest.raises(InputError, match="turn augment off"):
        ttm_jax.run_ttm(model, groups(), TTMConfig(iterations=1, epochs=1, augment=True))
    with pytest.raises(InputError, match="this model takes"):
        model.score_arrays(np.zeros((1, 16, 16, 3), np.uint8), np.zeros((1, 4), np.int32))


# ---- with PyTorch --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("torch")
    import tiny_naflex

    return tiny_naflex


def both_inputs(patch: int, most: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The pictures as transformers' processor and as ours prepare them."""
    from transformers import Siglip2ImageProcessorPil

    processor = Siglip2ImageProcessorPil(patch_size=patch, max_num_patches=most)
    ours = NaflexProcessor(patch, most)
    expected = dict(processor(pictures(), return_tensors="np"))
    return expected, np.asarray(to_float(jnp.asarray(ours.batch(pictures())), ours))


@pytest.mark.parametrize(("patch", "most"), [(16, 256), (16, 100), (4, MOST), (14, 729)])
def test_pixels_and_shapes_as_in_transformers(theirs, patch, most):
    expected, ours = both_inputs(patch, most)
    there = expected["pixel_attention_mask"].astype(bool)
    np.testing.assert_array_equal(ours[:, 0, -2:], expected["spatial_shapes"])
    np.testing.assert_allclose(
        ours[..., :-2][there], expected["pixel_values"][there], rtol=0, atol=1e-6
    )


def test_logits_and_gradients(theirs, tmp_path):
    model = theirs.make()
    model.save_pretrained(tmp_path)
    loaded = huggingface.load(tmp_path)
    checkpoint = replace(loaded, config=replace(loaded.config, max_patches=MOST))
    images, pixels = both_inputs(theirs.PATCH, MOST)
    rng = np.random.default_rng(1)
    ids = rng.integers(3, theirs.VOCABULARY, (len(pixels), theirs.LENGTH)).astype(np.int32)
    expected, out = theirs.forward(model, images, ids), run(checkpoint, pixels, ids)
    assert expected["logits"].std() > 0.3
    for name in ("image", "text", "logits"):
        close(out[name], expected[name], err_msg=name)

    @quick_jit
    @jax.value_and_grad
    def value(params, pixels, ids):
        logits = SigLIP(checkpoint.config).apply({"params": params}, pixels, ids)
        signs = 2 * jnp.eye(len(logits)) - 1
        return -jax.nn.log_sigmoid(signs * logits).sum(axis=1).mean()

    loss, gradients = value(checkpoint.params, jnp.asarray(pixels), jnp.asarray(ids))
    expected_loss, named = theirs.loss_and_gradients(model, images, ids)
    close(loss, expected_loss)
    tensors = Tensors({name: x.shape for name, x in named.items()}, named.__getitem__)
    fields = json.loads((tmp_path / "config.json").read_text())
    theirs_by_ours = flatten_dict(huggingface.convert(fields, tensors, "x").params, sep="/")
    gradients = flatten_dict(jax.device_get(gradients), sep="/")
    assert set(gradients) == set(theirs_by_ours)
    for name, gradient in gradients.items():
        close(gradient, theirs_by_ours[name], err_msg=name)


def test_transformers_loads_what_we_save(theirs, tmp_path):
    model = theirs.make(seed=2)
    model.save_pretrained(tmp_path / "theirs")
    checkpoint = huggingface.load(tmp_path / "theirs")
    huggingface.save(tmp_path / "ours", checkpoint.config, checkpoint.params)
    again, info = type(model).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert {key: list(value) for key, value in info.items() if value} == {}
    images, _ = both_inputs(theirs.PATCH, MOST)
    ids = np.full((2, theirs.LENGTH), 5, np.int32)
    np.testing.assert_array_equal(
        theirs.forward(again, images, ids)["logits"], theirs.forward(model, images, ids)["logits"]
    )


@pytest.mark.slow
def test_full_size(theirs):
    """google/siglip2-base-patch16-naflex, with random weights and a smaller vocabulary."""
    model = theirs.make_full_size()
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    tensors = Tensors({name: x.shape for name, x in state.items()}, state.__getitem__)
    checkpoint = huggingface.convert(model.config.to_dict(), tensors, "full size")
    images, pixels = both_inputs(16, 256)
    ids = np.random.default_rng(1).integers(3, 32000, (3, 64)).astype(np.int32)
    expected, out = theirs.forward(model, images, ids), run(checkpoint, pixels, ids)
    for name in ("image", "text", "logits"):
        np.testing.assert_allclose(out[name], expected[name], rtol=0, atol=1e-4, err_msg=name)
