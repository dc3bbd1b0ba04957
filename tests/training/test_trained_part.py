"""What is trained: how it is written, how parameters are divided, and that the parts are exact."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import models  # noqa: F401  (fixture)
from flax.traverse_util import flatten_dict
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.config import TTMConfig
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError
from ttm_jax.load import load_run
from ttm_jax.scorers.contrastive.towers import Towers
from ttm_jax.trained_part import TrainedPart, parse_train
from ttm_jax.training import sharding
from ttm_jax.training.trainable import merge_params, split_params, trained_leaves, variables

BOTH = ("image", "text")
PARTS = (
    "all",
    "image",
    "text",
    "heads",
    "text:heads",
    "last:1",
    "image:last:1",
    "lora",
    "lora:text",
    "lora:last:1",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", TrainedPart()),
        ("text", TrainedPart(sides=("text",))),
        ("heads", TrainedPart(last=0)),
        ("image:last:12", TrainedPart(sides=("image",), last=12)),
        ("lora", TrainedPart(lora=True)),
        ("lora:text:last:2", TrainedPart(True, ("text",), 2)),
    ],
)
def test_the_grammar(text, expected):
    assert parse_train(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "al",
        "all:text",
        "last",
        "last:0",
        "last:-1",
        "last:x",
        "lora:heads",
        "text:image",
        "text:",
    ],
)
def test_everything_else_is_refused_with_examples(text):
    with pytest.raises(InputError, match=r"train is .*; expected .*for example all, image"):
        TTMConfig(train=text)


def test_more_blocks_than_there_are():
    with pytest.raises(InputError, match=r"tower has 2 blocks; expected last:1 to last:1, or all"):
        split_params(tiny_model().params, "last:2")


@pytest.mark.parametrize("train", PARTS)
def test_a_divided_tree_is_the_same_tree(train):
    params = tiny_model().params
    split = split_params(params, train, 2)
    assert {"t", "b"} <= set(split.trained)
    assert not set(split.trained) & set(split.frozen)
    merged = flatten_dict(merge_params(split.trained, split.frozen), sep="/")
    flat = flatten_dict(params, sep="/")
    assert sorted(merged) == sorted(flat)
    for path, leaf in flat.items():
        np.testing.assert_array_equal(merged[path], leaf)
    again = trained_leaves(variables(split.trained, split.frozen), split.trained)
    for path, leaf in split.trained.items():
        np.testing.assert_array_equal(again[path], leaf)


def sides_of(family, train):
    """For each side: the data, its token ids, and the whole model's embeddings."""
    model, data = tiny_model(family), tiny_dataset(3)
    split = split_params(model.params, train, 2)
    split.trained.update(
        # An adapter that has an effect.
        {p: jnp.full_like(x, 0.1) for p, x in split.trained.items() if p.endswith("/b")}
    )
    whole = {"params": merge_params(split.trained, split.frozen)}
    pixels = jnp.asarray(data.images).astype(jnp.float32) / 127.5 - 1
    ids = jnp.asarray(data.captions)
    towers = Towers(model.module, parse_train(train))
    for side, x in (("image", pixels), ("text", ids)):
        expected = model.module.apply(whole, x, method=f"encode_{side}")
        yield towers, side, split, x, ids if side == "text" else None, expected


@pytest.mark.parametrize("family", ["siglip", "clip"])
@pytest.mark.parametrize("train", PARTS)
def test_the_parts_of_a_tower_one_after_the_other_are_the_tower(family, train):
    for towers, side, split, x, ids, expected in sides_of(family, train):
        params = split.trained, split.frozen
        hidden = towers.first(side, *params, x) if towers.is_divided(side) else x
        found = towers.rest(side, *params, hidden, ids)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


def bound(train, **changes):
    config = replace(CONFIG, train=train, lora_rank=2, **changes)
    mesh = sharding.make_mesh(jax.devices()[:1])
    return tiny_model().bind(tiny_dataset(), config, mesh, 0)


@pytest.mark.parametrize("train", ["text", "heads", "last:1", "lora:last:1"])
def test_gradient_and_scores_are_those_of_the_whole_model(train, monkeypatch):
    """Kept, computed again in every step, and with the whole model under a mask: all the same."""
    kept = bound(train)
    assert any(x is not None for x in (kept.data.first_images, kept.data.first_texts))
    monkeypatch.setattr("ttm_jax.scorers.contrastive.task._SHARE_KEPT", 0.0)
    again = bound(train)
    assert again.data.first_images is None
    assert again.data.first_texts is None
    batch = kept.examples((np.tile(np.arange(2, dtype=np.int32), (9, 1)),))
    batch = jax.tree.map(lambda x: x[:4], batch)
    results = [
        task.objective.value_and_grad(
            {p: jnp.asarray(x) for p, x in task.initial.trained.items()},
            task.initial.frozen,
            task.data,
            batch,
            jax.random.key(0),
        )
        for task in (kept, again)
    ]
    for (loss, gradient), task in zip(results, (kept, again), strict=True):
        np.testing.assert_allclose(loss, results[0][0], rtol=1e-6)
        assert sorted(gradient) == sorted(task.initial.trained)
        for path, leaf in gradient.items():
            np.testing.assert_allclose(leaf, results[0][1][path], rtol=0, atol=1e-6)
    whole = bound("all")
    if not train.startswith("lora"):
        all_of = whole.objective.value_and_grad(
            {p: jnp.asarray(x) for p, x in whole.initial.trained.items()},
            whole.initial.frozen,
            whole.data,
            batch,
            jax.random.key(0),
        )[1]
        for path, leaf in results[0][1].items():
            expected = all_of[path.removeprefix("last/")]
            expected = expected[-leaf.shape[0] :] if path.startswith("last/") else expected
            np.testing.assert_allclose(leaf, expected, rtol=0, atol=1e-6)
    scores = [task.score(task.initial.trained)[0] for task in (kept, again, whole)]
    np.testing.assert_allclose(scores[0], scores[2], rtol=0, atol=2e-5)
    np.testing.assert_allclose(scores[1], scores[2], rtol=0, atol=2e-5)


@pytest.mark.parametrize("train", ["last:1", "lora:text:last:1"])
def test_a_run_of_a_part_leaves_the_rest_alone_resumes_and_can_be_loaded(train, tmp_path, models):  # noqa: F811
    from ttm_jax.load import load_model

    model = load_model(models["siglip"])
    dataset, devices = own_dataset(model), jax.devices()[:1]
    config = replace(CONFIG, train=train, lora_rank=2, iterations=2)
    result = run_ttm(model, dataset, config, tmp_path / "run", devices=devices)
    before, after = (flatten_dict(m.params, sep="/") for m in (model, result.model))
    for path, leaf in before.items():
        if "encoderblock" in path:
            np.testing.assert_array_equal(after[path][:-1], leaf[:-1])
    changed = [path for path in before if not np.array_equal(before[path], after[path])]
    towers = {path.split("/")[0] for path in changed} - {"t", "b"}
    assert towers == ({"txt"} if "text" in train else {"img", "txt"})
    loaded = flatten_dict(load_run(tmp_path / "run").params, sep="/")
    for path, leaf in after.items():
        np.testing.assert_array_equal(loaded[path], leaf)
    again = run_ttm(model, dataset, config, tmp_path / "run", devices=devices)
    np.testing.assert_array_equal(again.scores, result.scores)


def own_dataset(model):
    """Random groups in the sizes of this model."""
    from ttm_jax.data.groups import GroupedDataset

    rng, c = np.random.default_rng(0), model.config
    pixels = rng.integers(0, 256, (6, 2, c.image_size, c.image_size, 3), dtype=np.uint8)
    tokens = rng.integers(3, c.vocab_size, (6, 2, c.text_length)).astype(np.int32)
    return GroupedDataset.from_arrays(pixels, tokens, np.tile(np.arange(2, dtype=np.int32), (6, 1)))
