"""A model of somebody else: the same numbers as ours for the same functions, resume, and errors."""

import runpy
import shutil
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from paths import TESTS

import ttm_jax
from ttm_jax.data import world
from ttm_jax.errors import InputError
from ttm_jax.load import load_model
from ttm_jax.scorers.contrastive.own_model import OwnModel, own_model

EXAMPLES = TESTS.parent / "examples"
CONFIG = ttm_jax.TTMConfig(lr=2e-4, iterations=2, epochs=1)


@pytest.fixture(scope="module")
def ours():
    return load_model("small-siglip")


@pytest.fixture(scope="module")
def own(ours):
    """The shipped model as two functions."""
    towers = {name: ours.params[name] for name in ("img", "txt")}
    logits = {name: jnp.zeros((1,), jnp.float32) for name in ("t", "b")}  # not used here

    def encode(params, x, method):
        return ours.module.apply({"params": {**params, **logits}}, x, method=method)

    return own_model(
        partial(encode, method="encode_image"),
        partial(encode, method="encode_text"),
        towers,
        image_size=ours.config.image_size,
        tokenizer=lambda captions: ours.tokenizer(captions).ids,
        logit_scale=float(np.exp(np.asarray(ours.params["t"])[0])),
        logit_bias=float(np.asarray(ours.params["b"])[0]),
    )


def test_the_same_scores(ours, own):
    dataset = world.make("color_swap", groups=4)
    captions = list(dataset.captions)
    expected = ours.score(dataset.images, captions)
    np.testing.assert_allclose(own.score(dataset.images, captions), expected, atol=1e-4)
    assert own.logit_scale == pytest.approx(float(np.exp(np.asarray(ours.params["t"])[0])))
    assert own.logit_bias == pytest.approx(float(np.asarray(ours.params["b"])[0]))
    assert isinstance(own, OwnModel)


def test_the_same_adaptation(ours, own):
    dataset = world.make("color_swap", groups=8)
    expected = ttm_jax.run_ttm(ours, dataset, CONFIG)
    found = ttm_jax.run_ttm(own, dataset, CONFIG)
    np.testing.assert_allclose(found.scores, expected.scores, atol=2e-3)
    np.testing.assert_array_equal(found.matchings, expected.matchings)
    kernel = found.model.tree["txt"]["head"]["kernel"]
    np.testing.assert_allclose(kernel, expected.model.params["txt"]["head"]["kernel"], atol=1e-5)
    assert own.params["t"] != found.model.params["t"]


def test_diagnose_and_simple_match(ours, own):
    dataset = world.make("color_swap", groups=24)
    mine, theirs = ttm_jax.diagnose(ours, dataset), ttm_jax.diagnose(own, dataset)
    assert theirs.go_ahead == mine.go_ahead
    found = ttm_jax.simple_match(own, dataset.limit(8), CONFIG)
    assert found.epochs >= 1


def test_resume_and_load_from_the_run(own, tmp_path):
    dataset = world.make("color_swap", groups=8)
    first = ttm_jax.run_ttm(own, dataset, CONFIG, tmp_path / "run")
    last = own.from_run(tmp_path / "run")
    jax.tree.map(np.testing.assert_array_equal, last.tree, first.model.tree)
    assert last.logit_bias == first.model.logit_bias
    start = own.from_run(tmp_path / "run", 0)
    jax.tree.map(np.testing.assert_array_equal, start.tree, own.tree)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "2")  # as if it had been stopped before
    again = ttm_jax.run_ttm(own, dataset, CONFIG, tmp_path / "run")
    np.testing.assert_array_equal(again.scores, first.scores)
    jax.tree.map(np.testing.assert_array_equal, again.model.tree, first.model.tree)
    with pytest.raises(InputError, match="has no checkpoint 7; available: "):
        own.from_run(tmp_path / "run", 7)
    for params in (arrays(), {"image": jnp.ones((3, 4))}):
        other = own_model(
            image, lambda p, x: jnp.ones((len(x), 4)), params, image_size=8, text_length=9
        )
        with pytest.raises(InputError, match="holds another model"):
            other.from_run(tmp_path / "run")


@pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
def test_shapes_are_compared(tmp_path):
    dataset = world.make("color_swap", groups=2)
    model = own_model(image, text, arrays(), image_size=8, tokenizer=letters)
    ttm_jax.run_ttm(model, dataset, CONFIG, tmp_path / "run")
    wider = {"image": jnp.ones((3, 4)), "text": jnp.ones((256, 4))}
    other = own_model(image, text, wider, image_size=8, tokenizer=letters)
    with pytest.raises(InputError, match=r"another model: own/text is \(128, 4\) there and \(256,"):
        other.from_run(tmp_path / "run")


def test_what_is_refused_of_a_run(own):
    dataset = world.make("color_swap", groups=2)
    with pytest.raises(InputError, match=r"train is 'text', but nothing is known of the parts"):
        ttm_jax.run_ttm(own, dataset, ttm_jax.TTMConfig(train="text"))
    for dtypes in ({"dtype": "bfloat16"}, {"train_dtype": "bfloat16"}):
        with pytest.raises(InputError, match="your functions decide what they compute in"):
            ttm_jax.run_ttm(own, dataset, ttm_jax.TTMConfig(**dtypes))
    with pytest.raises(InputError, match="has no Hugging Face format to write to adapted; store"):
        own.save("adapted")


def image(params, pixels):
    return pixels.mean((1, 2)) @ params["image"]


def text(params, ids):
    return params["text"][ids].mean(1)


def arrays(size=4):
    return {"image": jnp.ones((3, size)), "text": jnp.ones((128, 4))}


def letters(captions):
    return [[ord(letter) % 128 for letter in caption[-9:].rjust(9)] for caption in captions]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"params": {}}, "params has no arrays: there is nothing to train"),
        (
            {"params": {**arrays(), "steps": jnp.int32(3)}},
            r"params: steps is int32; expected floating-point arrays only: close over the rest",
        ),
        ({"params": {**arrays(), "f": "gelu"}}, "params: f is str; expected"),
        ({"params": arrays(5)}, "embeddings of size 5, encode_text of size 4"),
        ({"encode_image": lambda p, x: x}, r"encode_image makes .* of an input \(2, 8, 8, 3\)"),
        ({"encode_text": lambda p, x: x}, r"encode_text makes .*int32.*; expected embeddings"),
        ({"tokenizer": None}, "give a tokenizer, or the text_length"),
        ({"tokenizer": lambda c: [[1], [1, 2]]}, "pad all captions to one length"),
        ({"tokenizer": lambda c: [[0.5]] * 2}, r"tokenizer gives float64 \(2, 1\) of 2 captions"),
        ({"tokenizer": lambda c: [1, 2]}, r"tokenizer gives int64 \(2,\) of 2 captions"),
        ({"loss": "hinge"}, "loss is 'hinge'; expected 'siglip' or 'clip'"),
        ({"loss": "clip", "logit_bias": 1.0}, "a softmax does not see a bias"),
        ({"logit_scale": -2.3}, "logit_scale is -2.3; expected a number above 0, not its log"),
        ({"resize": "pad"}, "resize is 'pad'; expected one of squash, crop"),
    ],
)  # fmt: skip
def test_models_that_are_refused(change, message):
    settings = {
        "encode_image": image, "encode_text": text, "params": arrays(), "tokenizer": letters,
        "image_size": 8, **change,
    }  # fmt: skip
    with pytest.raises(InputError, match=message) as caught:
        own_model(**settings)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_that_changes_its_length():
    lengths = iter((9, 4))
    model = own_model(
        image, text, arrays(), image_size=8,
        tokenizer=lambda captions: [[1] * size for size in [next(lengths)] for _ in captions],
    )  # fmt: skip
    with pytest.raises(InputError, match="4 ids per caption; before it gave 9"):
        model.read_captions(["a"])


def test_softmax_without_a_bias_and_arrays_without_a_tokenizer():
    model = own_model(image, text, arrays(), image_size=8, text_length=9, loss="clip")
    assert set(model.params) == {"own", "t"}
    assert (round(model.logit_scale, 3), model.logit_bias) == (14.286, 0.0)
    scores = model.score_arrays(np.ones((2, 8, 8, 3), np.float32), np.ones((3, 9), np.int32))
    np.testing.assert_allclose(scores, np.full((2, 3), 1 / 0.07), rtol=1e-5)
    with pytest.raises(InputError, match="this model has no tokenizer"):
        model.read_captions(["a"])


def test_leaves_with_equal_names_are_told_apart():
    params = {"a": {"b": jnp.ones((3, 4))}, "a.b": jnp.full((128, 4), 2.0)}
    model = own_model(
        lambda p, x: x.mean((1, 2)) @ p["a"]["b"], lambda p, x: p["a.b"][x].mean(1), params,
        image_size=8, text_length=3,
    )  # fmt: skip
    assert set(model.params["own"]) == {"a.b.0", "a.b.1"}
    jax.tree.map(np.testing.assert_array_equal, model.tree, params)


@pytest.mark.parametrize("name", ["own_model_nnx", "own_model_equinox"])
def test_the_examples_run_and_resume(name, tmp_path, capsys):
    names = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    first = names["main"](str(tmp_path / "run"))
    again = names["main"](str(tmp_path / "run"))
    np.testing.assert_array_equal(first.scores, again.scores)
    assert capsys.readouterr().out.splitlines()[0].startswith("TwoTowers ")
