"""Comparisons with OpenCLIP: from golden files everywhere, with the program where it is installed.

`theirs` is the module tiny_open_clip, which imports OpenCLIP.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict
from parity import model_of, quick_jit, run

from ttm_jax.weights import model_folders
from ttm_jax.weights.checkpoint_files import Checkpoint, Tensors, expected_shapes
from ttm_jax.weights.parameter_names import rules
from ttm_jax.weights.tensor_layout import to_ours

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)
OUT = ("image", "text", "logits")


def assert_golden(folder: Path) -> Checkpoint:
    """The folder's model gives the embeddings, logits and gradients that are kept beside it."""
    checkpoint, prefix = model_folders.load(folder), "gradient/"
    with np.load(folder / "expected.npz", allow_pickle=False) as file:
        pixels, ids = file["in/pixels"], file["in/ids"]
        out = run(checkpoint, pixels, ids)
        for name in OUT:
            close(out[name], file[f"out/{name}"], err_msg=name)
        gradients = {n.removeprefix(prefix): file[n] for n in file.files if n.startswith(prefix)}
        assert_same_gradients(checkpoint, pixels, ids, file["out/loss"], gradients)
    return checkpoint


def round_trip(theirs: Any, model: Any, config: dict, folder: Path) -> None:
    """Their model in ours: same outputs and gradients; ours saved, in theirs: the same model."""
    theirs.save(model, config, folder / "theirs")
    checkpoint = model_folders.load(folder / "theirs")
    pixels, ids = theirs.inputs(config, images=5, texts=7, seed=1)
    expected, out = theirs.forward(model, pixels, ids), run(checkpoint, pixels, ids)
    assert expected["logits"].std() > 1
    for name in OUT:
        close(out[name], expected[name], err_msg=name)
    loss, gradients = theirs.loss_and_gradients(model, pixels, ids[:5])
    assert_same_gradients(checkpoint, pixels, ids[:5], loss, gradients)

    model_folders.save(folder / "ours", checkpoint.config, checkpoint.params)
    again = theirs.open_clip.create_model(f"local-dir:{folder / 'ours'}").eval()
    for name, array in theirs.state(model).items():
        np.testing.assert_array_equal(theirs.state(again)[name], array, err_msg=name)
    np.testing.assert_array_equal(theirs.forward(again, pixels, ids)["logits"], expected["logits"])


def full_size(theirs: Any, name: str, folder: Path) -> None:
    """A published model's sizes with random weights, and about the published temperature."""
    config = theirs.open_clip.get_model_config(name)
    theirs.torch.manual_seed(0)
    model = theirs.build(config)
    with theirs.torch.no_grad():
        model.logit_scale.fill_(np.log(100.0))
    theirs.save(model, config, folder)
    rng, side = np.random.default_rng(1), config["vision_cfg"]["image_size"]
    pixels = rng.uniform(-1, 1, (2, side, side, 3)).astype(np.float32)
    ids = rng.integers(1, 49000, (3, config["text_cfg"]["context_length"])).astype(np.int32)
    ids[:, 20] = 49407
    out, expected = run(model_folders.load(folder), pixels, ids), theirs.forward(model, pixels, ids)
    for key in OUT:
        np.testing.assert_allclose(out[key], expected[key], rtol=0, atol=1e-4, err_msg=key)
    worst = ", ".join(f"{key} {np.abs(out[key] - expected[key]).max():.1e}" for key in OUT)
    print(f"{name}: largest differences {worst}")


def _loss_and_gradients(checkpoint: Checkpoint, pixels, ids) -> tuple[float, dict[str, np.ndarray]]:
    model = model_of(checkpoint)

    @quick_jit
    @jax.value_and_grad
    def value(params, pixels, ids):
        logits = model.apply({"params": params}, pixels, ids)
        rows, columns = (jnp.diag(jax.nn.log_softmax(logits, axis)) for axis in (1, 0))
        return -(rows.mean() + columns.mean()) / 2

    loss, gradients = value(checkpoint.params, jnp.asarray(pixels), jnp.asarray(ids))
    return float(loss), flatten_dict(jax.device_get(gradients), sep="/")


def _by_our_names(checkpoint: Checkpoint, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    named = Tensors({name: x.shape for name, x in tensors.items()}, tensors.__getitem__)
    config = checkpoint.config
    return flatten_dict(to_ours(rules(config), expected_shapes(config), named, "test"), sep="/")


def assert_same_gradients(checkpoint: Checkpoint, pixels, ids, loss, gradients) -> None:
    our_loss, ours = _loss_and_gradients(checkpoint, pixels, ids)
    close(our_loss, loss)
    theirs = _by_our_names(checkpoint, gradients)
    assert set(ours) == set(theirs)
    for name, gradient in ours.items():
        close(gradient, theirs[name], err_msg=name)
