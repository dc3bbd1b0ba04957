"""Our SigLIP, CLIP and MetaCLIP 2 against transformers' PyTorch models with the same weights.

Compared directly where PyTorch is installed, and against the golden files everywhere.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from parity import model_of, quick_jit, run
from paths import TESTS

from ttm_jax.models.transformer import Block, Compute
from ttm_jax.weights import huggingface
from ttm_jax.weights.checkpoint_files import Checkpoint, Tensors

GOLDEN = TESTS / "golden"
CASES = ("siglip", "siglip_gelu_with_rest", "clip", "clip_gelu_legacy_eos", "metaclip_2")
FULL = 16  # positions of the tiny text towers

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)


def loss_and_gradients(
    checkpoint: Checkpoint, pixels: np.ndarray, ids: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """The losses of the two papers, over all pairs of the batch."""
    model = model_of(checkpoint)

    @quick_jit
    @jax.value_and_grad
    def value(params, pixels, ids):
        logits = model.apply({"params": params}, pixels, ids)
        if checkpoint.family == "clip":
            rows, columns = (jnp.diag(jax.nn.log_softmax(logits, axis)) for axis in (1, 0))
            return -(rows.mean() + columns.mean()) / 2
        signs = 2 * jnp.eye(len(logits)) - 1
        return -jax.nn.log_sigmoid(signs * logits).sum(axis=1).mean()

    loss, gradients = value(checkpoint.params, jnp.asarray(pixels), jnp.asarray(ids))
    return float(loss), flatten_dict(jax.device_get(gradients), sep="/")


def by_our_names(config: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rename a dict with transformers' names (also of gradients) using the table of names."""
    named = Tensors({name: x.shape for name, x in tensors.items()}, tensors.__getitem__)
    return flatten_dict(huggingface.convert(config, named, "test").params, sep="/")


def read_config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


# ---- without PyTorch -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["siglip", "clip"])
def test_golden_embeddings_and_logits(family):
    folder = GOLDEN / f"huggingface_{family}"
    with np.load(folder / "expected.npz", allow_pickle=False) as expected:
        out = run(huggingface.load(folder), expected["in/pixels"], expected["in/ids"])
        for name in ("image", "text", "logits"):
            close(out[name], expected[f"out/{name}"], err_msg=name)


@pytest.mark.parametrize(
    ("family", "remat"),
    [("siglip", "none"), ("clip", "none"), ("siglip", "dots"), ("clip", "block")],
)
def test_golden_gradients(family, remat):
    folder = GOLDEN / f"huggingface_{family}"
    checkpoint = huggingface.load(folder, compute=Compute(remat=remat))
    assert checkpoint.config.vision.compute.remat == checkpoint.config.text.compute.remat == remat
    prefix = "gradient/"
    with np.load(folder / "expected.npz", allow_pickle=False) as file:
        expected = {n.removeprefix(prefix): file[n] for n in file.files if n.startswith(prefix)}
        loss, gradients = loss_and_gradients(checkpoint, file["in/pixels"], file["in/ids"])
        close(loss, file["out/loss"])
    expected = by_our_names(read_config(folder), expected)
    assert set(gradients) == set(expected)
    for name, gradient in gradients.items():
        close(gradient, expected[name], err_msg=name)


def test_a_cut_caption_scores_the_same():
    """CLIP is causal: tokens after eos have no effect, so captions may be truncated there."""
    folder = GOLDEN / "huggingface_clip"
    checkpoint = huggingface.load(folder)
    with np.load(folder / "expected.npz", allow_pickle=False) as expected:
        pixels, ids = expected["in/pixels"], expected["in/ids"].copy()
    ids[:, 5] = checkpoint.config.eos_token_id
    other = ids.copy()
    other[:, 6:] = 1 + other[:, 6:] // 2
    whole = run(checkpoint, pixels, ids)["logits"]
    close(run(checkpoint, pixels, other)["logits"], whole)
    close(run(checkpoint, pixels, ids[:, :6])["logits"], whole)


@pytest.mark.parametrize("family", ["siglip", "clip"])
def test_bfloat16_is_near(family):
    folder = GOLDEN / f"huggingface_{family}"
    checkpoint = huggingface.load(folder, compute=Compute(dtype="bfloat16"))
    with np.load(folder / "expected.npz", allow_pickle=False) as expected:
        # Flax's LayerNorm computes its statistics in float32 by promotion.
        with jax.numpy_dtype_promotion("standard"):
            out = run(checkpoint, expected["in/pixels"], expected["in/ids"])
        distance = np.abs(out["image"] - expected["out/image"]).max()
    assert out["logits"].dtype == np.float32
    assert 1e-4 < distance < 0.05, "bfloat16 has 8 bits: neither exact nor far off"


# ---- with PyTorch --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch_models():
    pytest.importorskip("torch")
    import tiny_torch

    return tiny_torch


@pytest.fixture(scope="module", params=CASES)
def pair(request, torch_models, tmp_path_factory):
    """A PyTorch model and ours, loaded from the folder that it was saved to."""
    model = torch_models.make(torch_models.CONFIGS[request.param], seed=0)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    return model, huggingface.load(folder), folder


@pytest.mark.parametrize(("images", "texts", "length"), [(1, 1, FULL), (5, 7, 9), (3, 2, 1)])
def test_embeddings_and_logits(torch_models, pair, images, texts, length):
    model, checkpoint, _ = pair
    pixels, ids = torch_models.inputs(model.config, images, texts, length, seed=length)
    expected = torch_models.forward(model, pixels, ids)
    out = run(checkpoint, pixels, ids)
    for name in ("image", "text", "logits"):
        assert out[name].shape == expected[name].shape
        close(out[name], expected[name], err_msg=name)


def test_every_block(torch_models, pair):
    """Each block of both towers, on its input in the PyTorch model."""
    model, checkpoint, _ = pair
    pixels, ids = torch_models.inputs(model.config, 2, 3, FULL, seed=5)
    expected = torch_models.forward(model, pixels, ids)
    towers = (("img", "Transformer", "vision"), ("txt", "Encoder_0", "text"))
    for ours, encoder, theirs in towers:
        states = expected[f"{theirs}_states"]
        tower = getattr(checkpoint.config, theirs)
        stacked = checkpoint.params[ours][encoder]["encoderblock"]
        assert len(states) == tower.depth + 1
        apply = quick_jit(Block(tower).apply)
        for layer in range(tower.depth):
            params = jax.tree.map(lambda p, n=layer: p[n], stacked)
            out = apply({"params": params}, jnp.asarray(states[layer]))
            close(out, states[layer + 1], err_msg=f"{theirs} block {layer}")


def test_patches_and_positions(torch_models, pair):
    """The input of the first block of the image tower."""
    model, checkpoint, _ = pair
    pixels, ids = torch_models.inputs(model.config, 2, 1, FULL, seed=6)
    expected = torch_models.forward(model, pixels, ids)["vision_states"][0]

    @quick_jit
    def capture(params, pixels):
        return model_of(checkpoint).apply(
            {"params": params},
            pixels,
            method="encode_image",
            capture_intermediates=lambda module, _: module.name in ("embedding", "pre_norm"),
        )[1]["intermediates"]["img"]

    seen = capture(checkpoint.params, jnp.asarray(pixels))
    if checkpoint.family == "clip":
        close(seen["pre_norm"]["__call__"][0], expected)
    else:
        patches = seen["embedding"]["__call__"][0]
        close(patches + checkpoint.params["img"]["pos_embedding"], expected)


def test_gradients(torch_models, pair):
    model, checkpoint, folder = pair
    pixels, ids = torch_models.inputs(model.config, 4, 4, FULL, seed=3)
    expected_loss, expected = torch_models.loss_and_gradients(model, pixels, ids)
    loss, gradients = loss_and_gradients(checkpoint, pixels, ids)
    close(loss, expected_loss)
    expected = by_our_names(read_config(folder), expected)
    assert set(gradients) == set(expected)
    for name, gradient in gradients.items():
        close(gradient, expected[name], err_msg=name)
        # Adding a constant to every key does not change a softmax: only this gradient is zero.
        assert name.endswith("key/bias") or np.abs(gradient).max() > 1e-3, name


def _full_size(name: str):
    from transformers import CLIPConfig, MetaClip2Config, SiglipConfig

    large = {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
    }
    return {
        "siglip-base-patch16-224": lambda: SiglipConfig(),
        "clip-vit-base-patch32": lambda: CLIPConfig(),
        "clip-vit-base-patch16": lambda: CLIPConfig(vision_config={"patch_size": 16}),
        "metaclip-2-base": lambda: MetaClip2Config(text_config={"eos_token_id": 2}),
        "siglip-large-patch16-256": lambda: SiglipConfig(
            text_config=large, vision_config={**large, "image_size": 256}
        ),
    }[name]()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "siglip-base-patch16-224",
        "clip-vit-base-patch32",
        "clip-vit-base-patch16",
        "metaclip-2-base",
        "siglip-large-patch16-256",
    ],
)
def test_full_size(torch_models, name):
    config = _full_size(name)
    model = torch_models.make_full_size(config, seed=0)
    rng = np.random.default_rng(1)
    size, text = config.vision_config.image_size, config.text_config
    pixels = rng.uniform(-1, 1, (2, size, size, 3)).astype(np.float32)
    ids = rng.integers(3, text.vocab_size, (3, text.max_position_embeddings)).astype(np.int32)
    if config.model_type != "siglip":
        ids[:, 20] = text.eos_token_id
    expected = torch_models.forward(model, pixels, ids)
    weights = torch_models.state(model)
    tensors = Tensors({name: x.shape for name, x in weights.items()}, weights.__getitem__)
    checkpoint = huggingface.convert(config.to_dict(), tensors, name)
    del model, weights, tensors
    out = run(checkpoint, pixels, ids)
    assert expected["logits"].std() > 0.1, "the logits must differ for this to mean anything"
    for key in ("image", "text", "logits"):
        np.testing.assert_allclose(out[key], expected[key], rtol=0, atol=1e-4, err_msg=key)
