"""Test-Time Matching of a VQA model: its training examples, and that the engine is the same."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from parity import quick_jit
from tiny_vlm import picture, tiny_vlm, vlm_dataset, write_tiny_vlm

from ttm_jax.config import Memory, TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.inputs.preprocess import normalise
from ttm_jax.inputs.vlm_prompt import ask, pad
from ttm_jax.load import load_model
from ttm_jax.scorers.vqa.model import VQAModel
from ttm_jax.training import sharding
from ttm_jax.training.task import Task
from ttm_jax.training.trainable import merge_params

CONFIG = TTMConfig(
    tau_unit="probability", lr=2e-3, iterations=2, epochs=2, batch_groups=4, coverage=0.4
)
ONE = jax.devices()[:1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_vlm(tmp_path_factory.mktemp("vlm") / "tiny")


@pytest.fixture(scope="module")
def model(folder):
    return tiny_vlm(folder)


def run(model, dataset=None, config=CONFIG, **settings):
    settings.setdefault("devices", ONE)
    return run_ttm(model, dataset or vlm_dataset(), config, **settings)


@pytest.fixture(scope="module")
def whole(model):
    """One run that several tests compare with."""
    return run(model)


def mixed() -> GroupedDataset:
    rng = np.random.default_rng(0)
    images = [picture(32, 32, rng) for _ in range(6)]
    return GroupedDataset.from_groups(
        [
            Group("a", tuple(images[:2]), ("a cat", "a dog"), (0, 1)),
            Group("b", tuple(images[2:3]), ("a red cup", "a cat", "a tree"), (0,)),
            Group("c", tuple(images[3:]), ("a house", "a dog"), (0, 1, -1)),
        ]
    )


def bind(model, dataset, config=CONFIG) -> Task:
    task = model.bind(dataset, config, sharding.make_mesh(ONE), 0)
    assert isinstance(task, Task)
    return task


class TestExamples:
    def test_yes_for_matched_pairs_and_no_for_the_others_of_the_group(self, model):
        dataset = vlm_dataset(3)
        task = bind(model, dataset)
        matching = np.asarray([[0, 1], [1, 0], [0, 1]], np.int32)
        examples = task.examples((matching,))
        block = dataset.blocks[0]
        assert examples.image.shape == (3, 4)
        assert examples.mask.all()
        for group in range(3):
            pairs = {
                (int(i), int(t)): bool(label)
                for i, t, label in zip(
                    examples.image[group], examples.text[group], examples.label[group], strict=True
                )
            }
            expected = {
                (int(block.image_index[group, i]), int(block.text_index[group, t])): t
                == matching[group, i]
                for i in range(2)
                for t in range(2)
            }
            assert pairs == expected

    def test_mixed_shapes_are_padded_image_by_image(self, model):
        dataset = mixed()
        task = bind(model, dataset)
        matchings = (
            np.asarray([[1, 0]], np.int32),
            np.asarray([[2]], np.int32),
            np.asarray([[1, -1, 0]], np.int32),
        )
        examples = task.examples(matchings)
        grid = (3, 3, 3)  # groups, most images, most captions
        mask, label, image = (
            getattr(examples, name).reshape(grid) for name in ("mask", "label", "image")
        )
        assert mask.sum(axis=(1, 2)).tolist() == [4, 3, 6]
        assert label.sum(axis=(1, 2)).tolist() == [2, 1, 2]
        assert not (label & ~mask).any()
        assert not label[2, 1].any()  # the answer for an image without a caption is always "No"
        for row, used in zip(image.reshape(9, 3), mask.reshape(9, 3), strict=True):
            assert not used.any() or len(set(row)) == 1


class TestObjective:
    def test_loss_and_gradients_equal_the_plain_way(self, folder):
        """Shared prefixes, tiles of two aspects, padding; all at once, or in chunks with remat."""
        model = tiny_vlm(folder, splitting=True)
        dataset = vlm_dataset(3, sizes=((32, 32), (32, 12)))
        expected_loss = expected = None
        for memory in (Memory("none", 0), Memory("block", 3)):
            task = bind(model, dataset, replace(CONFIG, memory=memory))
            examples = task.examples((np.asarray([[0, 1], [1, 0], [0, 1]], np.int32),))
            mask = examples.mask.copy()
            mask[2] = False  # padding of an incomplete batch
            batch = replace(examples, mask=mask)
            if expected is None:
                expected_loss, expected = plain_loss_and_gradient(model, dataset, batch)
                scale = max(np.abs(x).max() for x in expected.values())
            loss, gradient = jax.jit(task.objective.value_and_grad)(
                task.initial.trained, task.initial.frozen, task.data, batch, jax.random.key(0)
            )
            np.testing.assert_allclose(loss, expected_loss, rtol=1e-6)
            assert set(gradient) == set(expected)
            for path, value in expected.items():
                np.testing.assert_allclose(gradient[path] / scale, value / scale, atol=1e-5)


def plain_loss_and_gradient(model: VQAModel, dataset, batch):
    """Mean cross-entropy of " Yes" or " No" after each whole prompt."""
    chosen = [np.asarray(x)[batch.mask] for x in (batch.image, batch.text, batch.label)]
    yes, no = (model.prompt.answer_id(answer) for answer in model.settings.answers)
    tiled = [model.processor(dataset.images[image]) for image in chosen[0]]
    prompts = [
        model.prompt.image_part(tiles.rows, tiles.columns)
        + model.prompt.question_part(ask(model.settings.question, [dataset.captions[text]])[0])
        for tiles, text in zip(tiled, chosen[1], strict=True)
    ]

    def one(params, pixels, ids, last, answer):
        logits = model.module.apply({"params": params}, pixels, ids[None], method="everything")
        return -jax.nn.log_softmax(logits[0, last])[answer]

    value = quick_jit(jax.value_and_grad(one))
    params = jax.tree.map(jnp.asarray, model.params)
    parts = [
        value(
            params,
            normalise(tiles.pixels, model.tiles.mean, model.tiles.std),
            ids,
            len(prompt) - 1,
            yes if label else no,
        )
        for tiles, prompt, ids, label in zip(tiled, prompts, pad(prompts), chosen[2], strict=True)
    ]
    loss, gradient = jax.tree.map(lambda *x: sum(x) / len(parts), *parts)
    return loss, flatten_dict(gradient, sep="/")


class TestEngine:
    def test_scores_are_probabilities_and_training_moves_them(self, model, whole):
        first, last = whole.history[0], whole.scores
        dataset = vlm_dataset()
        block = dataset.blocks[0]
        direct = model.score(list(dataset.images), list(dataset.captions))
        direct = direct[block.image_index[:, :, None], block.text_index[:, None, :]]
        np.testing.assert_allclose(first.scores, direct, rtol=1e-5)
        assert first.selected.sum() == 3  # 0.4 of 6 groups, rounded up
        assert whole.history[-1].selected.all()
        assert ((last > 0) & (last < 1)).all()
        # "Yes" and "No" are trained to be the answers: both gain over all other tokens.
        assert last.mean() > 10 * first.scores.mean()
        losses = [record.loss for record in whole.history]
        assert losses[1] < losses[0]
        assert isinstance(whole.model, VQAModel)

    def test_eight_devices(self, model, whole):
        eight = run(model, config=replace(CONFIG, placement="sharded"), devices=jax.devices())
        np.testing.assert_allclose(eight.scores, whole.scores, rtol=1e-3)
        for a, b in zip(eight.history, whole.history, strict=True):
            np.testing.assert_array_equal(a.selected, b.selected)

    def test_lora_trains_adapters_of_both_towers_and_merges(self, model):
        config = replace(CONFIG, train="lora", lora_rank=2)
        task = bind(model, vlm_dataset(), config)
        names = {path.split("/")[1] for path in task.initial.trained}
        assert names == {"img", "txt"}
        assert all(path.startswith("lora/") for path in task.initial.trained)
        ends = {path.rsplit("/", 2)[1] for path in task.initial.trained if "/txt/" in path}
        assert ends == {"query", "key", "value", "out", "gate", "up", "down"}
        result = run(model, config=config)
        first = result.history[0].scores
        assert not np.allclose(result.scores, first, rtol=1e-3)
        block, dataset = vlm_dataset().blocks[0], vlm_dataset()
        merged = result.model.score(list(dataset.images), list(dataset.captions))
        merged = merged[block.image_index[:, :, None], block.text_index[:, None, :]]
        np.testing.assert_allclose(merged, result.scores, rtol=1e-3)

    @pytest.mark.parametrize(("train", "moved"), [("heads", {"img/head", "txt/head"})])
    def test_parts_can_be_trained(self, model, train, moved):
        task = bind(model, vlm_dataset(), replace(CONFIG, train=train))
        assert {"/".join(path.split("/")[:2]) for path in task.initial.trained} == moved
        assert set(merge_params(task.initial.trained, task.initial.frozen)) == {"img", "txt"}

    def test_run_folder_resumes_and_loads(self, model, whole, tmp_path):
        first = run(model, run_dir=tmp_path)
        again = run(model, run_dir=tmp_path)
        np.testing.assert_array_equal(first.scores, whole.scores)
        np.testing.assert_array_equal(again.scores, first.scores)
        scoring = read_json(tmp_path / "config.json")["model"]["scoring"]
        assert scoring["normalise"] == "vocabulary"
        assert scoring["splitting"] is False
        loaded = load_model(tmp_path)
        dataset = vlm_dataset()
        images, texts = list(dataset.images)[:2], list(dataset.captions)[:2]
        np.testing.assert_allclose(
            loaded.score(images, texts), first.model.score(images, texts), rtol=1e-5
        )
        other = model.with_settings(replace(model.settings, normalise="answers"))
        with pytest.raises(InputError, match=r"scoring\.normalise: vocabulary -> answers"):
            run(other, run_dir=tmp_path)

    def test_mixed_shapes_run(self, model):
        result = run(model, mixed(), replace(CONFIG, iterations=1, tau_1=0.0))
        assert [s.shape for s in result.scores] == [(1, 2, 2), (1, 1, 3), (1, 3, 2)]

    def test_what_is_refused(self, model):
        config = replace(CONFIG, tau_unit="fraction", matching="global")
        with pytest.raises(InputError, match="use matching within groups"):
            run(model, config=config)
        with pytest.raises(InputError, match="turn augment off"):
            run(model, config=replace(CONFIG, augment=True))
        dataset = vlm_dataset()
        broken = replace(dataset, images=(*dataset.images[:-1], "/no/such.png"))
        with pytest.raises(InputError, match=r"group '5'.*does not exist"):
            run(model, broken)
