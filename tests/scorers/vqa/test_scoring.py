"""VQAScore with shared prefixes compared with whole prompts, and the composition of batches."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import quick_jit
from tiny_vlm import captions, picture, tiny_vlm, write_tiny_vlm

from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageError, normalise
from ttm_jax.inputs.vlm_prompt import ask, pad
from ttm_jax.load import load_model
from ttm_jax.models.transformer import Compute
from ttm_jax.scorers.vqa.inputs import Sizes, common_start
from ttm_jax.scorers.vqa.model import VQAModel, VQASettings
from ttm_jax.scorers.vqa.scoring import QUESTIONS_AT_ONCE, batches, question_chunks
from ttm_jax.training import sharding

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)
SIZES = [(32, 32), (32, 20), (16, 32), (40, 6)]  # one and several tiles, when split


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_vlm(tmp_path_factory.mktemp("vlm") / "tiny")


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    return [picture(*size, rng) for size in SIZES]


def plain_logits(model: VQAModel, images, texts) -> np.ndarray:
    """One whole prompt per pair, every position through the decoder; logits after the last one."""
    plain = quick_jit(partial(model.module.apply, method="everything"))
    questions = [model.prompt.question_part(q) for q in ask(model.settings.question, texts)]
    logits = np.zeros((len(images), len(texts), model.config.text.vocab_size))
    for i, image in enumerate(images):
        tiles = model.processor(image)
        pixels = normalise(tiles.pixels, model.tiles.mean, model.tiles.std)
        start = model.prompt.image_part(tiles.rows, tiles.columns)
        prompts = [start + question for question in questions]
        # Padding after the last token has no effect: one shape, one compilation.
        for t, ids in enumerate(pad(prompts)):
            out = plain({"params": model.params}, pixels, ids[None])
            logits[i, t] = np.asarray(out)[0, len(prompts[t]) - 1]
    return logits


class TestScores:
    @pytest.mark.parametrize("splitting", [False, True])
    def test_shared_prefix_equals_the_plain_way(self, folder, pictures, splitting):
        model, texts = tiny_vlm(folder, splitting), captions(4)
        odds = np.exp(plain_logits(model, pictures, texts))
        yes, no = (model.prompt.answer_id(answer) for answer in model.settings.answers)
        for way, below in (
            ("vocabulary", odds.sum(axis=-1)),
            ("answers", odds[..., yes] + odds[..., no]),
        ):
            asked = model.with_settings(replace(model.settings, normalise=way))
            expected = odds[..., yes] / below
            assert expected.std() > 1e-4, "the scores must differ for this to mean anything"
            scores = asked.score(pictures, texts)
            close(scores, expected)
            # Relative as well: P("Yes") of a random model is small.
            np.testing.assert_allclose(scores, expected, rtol=2e-5)

    def test_what_a_score_may_not_depend_on(self, folder, pictures):
        """Batch size, the other captions and images, and their order."""
        model = tiny_vlm(folder, splitting=True)
        texts = captions(QUESTIONS_AT_ONCE + 3)  # more than fit in one chunk
        few = pictures[:3]
        scores = model.score(few, texts, batch_size=2)
        close(model.score(few[::-1], texts[::-1], batch_size=1)[::-1, ::-1], scores)
        close(model.score(few[1:2], texts[2:3])[0, 0], scores[1, 2])

    def test_tiles_encoded_image_by_image_are_the_same(self, folder, pictures):
        """Of two tiles each: their order must survive."""
        model = tiny_vlm(folder, splitting=True)
        vqa = model.vqa(sharding.make_mesh(jax.devices()[:1]))
        pools, _ = model.read(pictures, captions(1))
        tiles = pools.tile_index[:, :2]
        assert len(np.unique(tiles)) > len(tiles)
        state = {"params": model.params}
        whole = quick_jit(vqa.features)(state, pools, tiles)
        assert whole.shape[:2] == (len(pictures), 2 * model.config.tile_tokens)
        for at_once in (1, 2):
            parts = quick_jit(partial(vqa.features, at_once=at_once))(state, pools, tiles)
            close(parts, whole)

    def test_other_questions_and_answers(self, folder, pictures):
        model = tiny_vlm(folder)
        usual = model.score(pictures[:1], captions(2))
        no = model.with_settings(
            replace(model.settings, answers=("No", "Yes"), normalise="answers")
        )
        yes = model.with_settings(replace(model.settings, normalise="answers"))
        total = no.score(pictures[:1], captions(2)) + yes.score(pictures[:1], captions(2))
        close(total, 1.0)
        other = model.with_settings(replace(model.settings, question="Is this {text}?"))
        assert not np.allclose(other.score(pictures[:1], captions(2)), usual, rtol=1e-3)

    def test_bfloat16_is_near(self, folder, pictures):
        model = tiny_vlm(folder).with_settings(VQASettings(normalise="answers", splitting=False))
        exact = model.score(pictures[:1], captions(2))
        # Flax's LayerNorm computes its statistics in float32 by promotion.
        with jax.numpy_dtype_promotion("standard"):
            near = model.with_compute(Compute(dtype="bfloat16")).score(pictures[:1], captions(2))
        assert 1e-6 < np.abs(near - exact).max() < 0.05


class TestLoading:
    def test_load_model_reads_it_and_save_writes_it(self, folder, pictures, tmp_path):
        model = load_model(folder)
        assert isinstance(model, VQAModel)
        assert model.processor.splitting  # the setting in its files
        scores = model.score(pictures[:2], captions(2))
        model.save(tmp_path / "copy")
        again = load_model(tmp_path / "copy")
        np.testing.assert_array_equal(again.score(pictures[:2], captions(2)), scores)
        model.save(tmp_path / "half", dtype="bfloat16")
        size = [(tmp_path / n / "model.safetensors").stat().st_size for n in ("copy", "half")]
        assert size[1] < 0.6 * size[0]

    def test_transformers_reads_the_same_prompt(self, folder, pictures):
        """transformers' processor loads the small model's files and builds the same prompt."""
        pytest.importorskip("torch")
        import json

        from transformers import AutoTokenizer, Idefics3ImageProcessorPil, Idefics3Processor

        model = load_model(folder)
        template = json.loads((folder / "chat_template.json").read_text())["chat_template"]
        processor = Idefics3Processor(
            Idefics3ImageProcessorPil.from_pretrained(folder),
            AutoTokenizer.from_pretrained(folder),
            image_seq_len=model.config.tile_tokens,
            chat_template=template,
        )
        question = ask(model.settings.question, captions(1))[0]
        content = [{"type": "image"}, {"type": "text", "text": question}]
        text = processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True
        )
        for image in pictures:
            tiles = model.processor(image)
            ids = model.prompt.image_part(tiles.rows, tiles.columns)
            ids += model.prompt.question_part(question)
            assert processor(images=image, text=text)["input_ids"][0] == ids

    def test_what_does_not_fit_together(self, folder):
        model = tiny_vlm(folder)
        with pytest.raises(InputError, match="tiles of 99 px"):
            replace(model, tiles=replace(model.tiles, size=99))
        with pytest.raises(InputError, match="<image> is token"):
            replace(model, config=replace(model.config, image_token_id=3))
        with pytest.raises(InputError, match="two different strings"):
            VQASettings(answers=("Yes", "Yes"))
        with pytest.raises(InputError, match="image size"):
            load_model(folder, image_size=32)
        short = replace(model.config, text=replace(model.config.text, max_positions=20))
        with pytest.raises(InputError, match="this model has 20 positions"):
            replace(model, config=short).score([np.zeros((8, 8, 3), np.uint8)], ["a cat"])
        with pytest.raises(InputError, match="captions as strings"):
            model.read([np.zeros((8, 8, 3), np.uint8)], np.zeros((1, 4), np.int32))
        with pytest.raises(ImageError, match="float32"):
            model.score([np.zeros((8, 8, 3), np.float32)], ["a cat"])


rows_of_ids = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=6)


class TestBatches:
    @given(rows_of_ids)
    def test_common_start(self, rows):
        common = common_start(rows)
        assert len({tuple(row[:common]) for row in rows}) == 1
        shortest = min(map(len, rows))
        assert common < shortest
        assert common == shortest - 1 or len({row[common] for row in rows}) > 1

    @given(st.data())
    def test_every_pair_is_asked_and_batches_are_alike(self, data):
        images, texts = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 20))
        number = st.integers(1, 4)
        sizes = Sizes(
            np.asarray(data.draw(st.lists(number, min_size=images, max_size=images)), np.int32),
            np.full(images, 9, np.int32),
            np.asarray(data.draw(st.lists(number, min_size=texts, max_size=texts)), np.int32),
        )
        every = [(i, t) for i in range(images) for t in range(texts)]
        pairs = np.asarray(
            data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True)), np.int32
        )
        size, devices = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1, 2, 8]))
        seen: set[int] = set()
        for batch in batches(sizes, pairs, size, devices):
            assert len(batch.images) % devices == 0
            assert set(sizes.tiles[batch.images]) == {batch.tiles}
            for chunk in question_chunks(batch.pairs):
                assert chunk.shape[1] <= QUESTIONS_AT_ONCE
                np.testing.assert_array_equal(
                    pairs[chunk, 0], np.repeat(batch.images[:, None], chunk.shape[1], axis=1)
                )
                seen |= set(chunk.reshape(-1).tolist())
        assert seen == set(range(len(pairs)))
