"""The table-driven conversion in isolation, and the resampling of position embeddings."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import run
from paths import TESTS

from ttm_jax.errors import InputError
from ttm_jax.weights import huggingface, parameter_names
from ttm_jax.weights.checkpoint_files import Tensors
from ttm_jax.weights.positions import at_image_size, resample
from ttm_jax.weights.tensor_layout import Rule, copy_transposed, expand, to_ours, to_theirs

GOLDEN = TESTS / "golden"


def tensors(arrays: dict[str, np.ndarray]) -> Tensors:
    return Tensors({name: x.shape for name, x in arrays.items()}, arrays.__getitem__)


@st.composite
def layouts(draw) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], bool]:
    """Any shape, any order and joining of its axes; axes of size 1 may be omitted."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    order = draw(st.permutations(range(len(shape))))
    axes: list[list[int]] = []
    for axis in order:
        if shape[axis] == 1 and draw(st.booleans()):
            continue
        if axes and draw(st.booleans()):
            axes[-1].append(axis)
        else:
            axes.append([axis])
    return shape, tuple(map(tuple, axes)), draw(st.booleans())


@given(layouts(), st.integers(1, 3))
def test_any_layout_goes_there_and_back(layout, depth):
    block, axes, stacked = layout
    shape = (depth, *block) if stacked else block
    rules = [Rule("layer.{i}.x" if stacked else "x", "a/x", axes)]
    params = {"a": {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}}
    theirs = to_theirs(rules, {"a/x": shape}, params)
    assert len(theirs) == (depth if stacked else 1)
    assert all(x.flags.c_contiguous and x.dtype == np.float32 for x in theirs.values())
    again = to_ours(rules, {"a/x": shape}, tensors(theirs), "here")
    assert again["a"]["x"].tobytes() == params["a"]["x"].tobytes()


def test_axes_mean_what_the_table_says():
    """Against the definition of each layer: x @ ours equals what PyTorch computes as theirs @ x."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=6)

    linear = rng.normal(size=(6, 4))
    theirs = one(parameter_names.LINEAR, linear)
    np.testing.assert_allclose(theirs @ x, x @ linear, rtol=1e-5)

    heads = rng.normal(size=(6, 2, 3))  # width, head, d
    theirs = one(parameter_names.TO_HEADS, heads)
    np.testing.assert_allclose(
        (theirs @ x).reshape(2, 3), np.einsum("w,whd->hd", x, heads), rtol=1e-5
    )

    out = rng.normal(size=(2, 3, 5))  # head, d, width
    theirs = one(parameter_names.FROM_HEADS, out)
    np.testing.assert_allclose(theirs @ x, np.einsum("hd,hdw->w", x.reshape(2, 3), out), rtol=1e-5)

    patch = rng.normal(size=(2, 4, 3, 5))  # height, width, channel, out
    image = rng.normal(size=(2, 4, 3))
    theirs = one(parameter_names.CONV, patch)
    np.testing.assert_allclose(
        np.einsum("ochw,hwc->o", theirs, image),
        np.einsum("hwco,hwc->o", patch, image),
        rtol=1e-5,
    )


def one(axes, ours: np.ndarray) -> np.ndarray:
    return to_theirs([Rule("x", "x", axes)], {"x": ours.shape}, {"x": ours})["x"]


def test_packed_query_key_value():
    shapes = dict.fromkeys(("q", "k", "v"), (6, 2, 3))
    axes = parameter_names.TO_HEADS
    rules = [Rule("in_proj", name, axes, (part, 3)) for part, name in enumerate(shapes)]
    rng = np.random.default_rng(2)
    params = {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    packed = to_theirs(rules, shapes, params)["in_proj"]
    assert packed.shape == (18, 6)
    for part, name in enumerate(shapes):
        alone = one(parameter_names.TO_HEADS, params[name])
        np.testing.assert_array_equal(packed[6 * part : 6 * (part + 1)], alone)
    again = to_ours(rules, shapes, tensors({"in_proj": packed}), "here")
    for name in shapes:
        np.testing.assert_array_equal(again[name], params[name])
    assert {slot.shape for slot in expand(rules, shapes)} == {(18, 6)}


@pytest.mark.parametrize("shape", [(1, 300), (128, 128), (257, 300)])
def test_transposing_in_blocks(shape):
    source = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    target = np.full(shape[::-1], np.nan, np.float32)
    copy_transposed(target, source)
    np.testing.assert_array_equal(target, source.T)


# ---- position embeddings -------------------------------------------------------------------------


@given(st.integers(1, 8), st.integers(1, 12))
def test_a_constant_grid_stays_constant(old, new):
    grid = np.full((old * old, 2), 3.25, np.float32)
    np.testing.assert_allclose(resample(grid, new), np.full((new * new, 2), 3.25), rtol=1e-6)


@given(st.integers(1, 8))
def test_the_same_grid_stays_as_it_is(side):
    grid = np.random.default_rng(side).normal(size=(side * side, 3)).astype(np.float32)
    np.testing.assert_allclose(resample(grid, side), grid, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("old", "new"), [(14, 24), (16, 14), (7, 3), (1, 4), (3, 5)])
def test_resampling_is_pytorchs_bicubic(old, new):
    torch = pytest.importorskip("torch")
    grid = np.random.default_rng(3).normal(size=(old * old, 6)).astype(np.float32)
    image = torch.from_numpy(grid.reshape(1, old, old, 6)).permute(0, 3, 1, 2)
    expected = torch.nn.functional.interpolate(
        image, size=(new, new), mode="bicubic", align_corners=False
    )
    expected = expected.permute(0, 2, 3, 1).reshape(new * new, 6).numpy()
    np.testing.assert_allclose(resample(grid, new), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "size"), [("siglip", 48), ("clip", 24)])
def test_another_image_size_scores_as_in_transformers(tmp_path, name, size):
    torch = pytest.importorskip("torch")
    import tiny_torch

    model = tiny_torch.make(tiny_torch.CONFIGS[name], seed=4)
    model.save_pretrained(tmp_path)
    rng = np.random.default_rng(5)
    pixels = rng.uniform(-1, 1, (2, size, size, 3)).astype(np.float32)
    ids = tiny_torch.inputs(model.config, 1, 3, 16, seed=6)[1]
    with torch.no_grad():
        expected = model(
            pixel_values=torch.from_numpy(pixels).permute(0, 3, 1, 2),
            input_ids=torch.from_numpy(ids).long(),
            interpolate_pos_encoding=True,
        ).logits_per_image.numpy()
    checkpoint = huggingface.load(tmp_path, image_size=size)
    assert checkpoint.config.image_size == size
    logits = run(checkpoint, pixels, ids)["logits"]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)


def test_only_the_grid_changes():
    checkpoint = huggingface.load(GOLDEN / "huggingface_clip")
    larger = at_image_size(checkpoint, 48)
    before, after = checkpoint.params["img"], larger.params["img"]
    assert after["pos_embedding"].shape == (1, 37, 16)
    assert after["pos_embedding"].dtype == np.float32
    np.testing.assert_array_equal(
        after["pos_embedding"][:, 0], before["pos_embedding"][:, 0], "the class token's own"
    )
    assert after["Transformer"] is before["Transformer"]
    assert before["pos_embedding"].shape == (1, 17, 16), "the given checkpoint is left alone"
    same_grid = at_image_size(checkpoint, 39)  # 4 patches of 8 and a remainder
    assert same_grid.params is checkpoint.params
    assert same_grid.config.image_size == 39
    with pytest.raises(InputError, match="smaller than a patch"):
        at_image_size(checkpoint, 7)


def test_a_grid_that_does_not_fit_is_an_error_that_says_how_to_ask(tmp_path):
    source = GOLDEN / "huggingface_siglip"
    fields = json.loads((source / "config.json").read_text())
    fields["vision_config"]["image_size"] = 40
    (tmp_path / "config.json").write_text(json.dumps(fields))
    (tmp_path / "model.safetensors").symlink_to(source / "model.safetensors")
    with pytest.raises(InputError, match=r"3 x 3 patches of 8 px.*image_size=40"):
        huggingface.load(tmp_path)
    asked = huggingface.load(tmp_path, image_size=40)
    direct = huggingface.load(source, image_size=40)
    assert asked.config == direct.config
    np.testing.assert_array_equal(
        asked.params["img"]["pos_embedding"], direct.params["img"]["pos_embedding"]
    )
