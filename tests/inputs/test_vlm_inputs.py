"""Tiles and prompts against transformers' own processor, with the published files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from smolvlm_files import unpack

from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageError, normalise
from ttm_jax.inputs.vlm_images import TileProcessor, scaled_size, tiled_size
from ttm_jax.inputs.vlm_prompt import PromptTokenizer, ask, lengths, pad
from ttm_jax.inputs.vqa_prompts import PAPER_PROMPT

CAPTIONS = [
    "a cat on a mat",
    "Two  dogs, 2024: 50% off!\n",
    'she said "hello" — naïve café 日本語 🙂',
    " a leading space",
]
# width x height: square, landscape, portrait, one row, one column, tiny, odd.
SIZES = [(300, 300), (640, 480), (333, 500), (900, 120), (60, 400), (7, 5), (1, 64)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return unpack(tmp_path_factory.mktemp("smolvlm"))


@pytest.fixture(scope="module")
def prompt(folder) -> PromptTokenizer:
    return PromptTokenizer.from_folder(folder, tile_tokens=64)


@pytest.fixture(scope="module")
def theirs(folder):
    """transformers' processor on Pillow."""
    pytest.importorskip("torch")
    from transformers import AutoTokenizer, Idefics3ImageProcessorPil, Idefics3Processor

    return Idefics3Processor(
        Idefics3ImageProcessorPil.from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
        image_seq_len=64,
        chat_template=(folder / "chat_template.json").read_text(),
    )


def picture(width: int, height: int, seed: int = 0, mode: str = "RGB") -> Image.Image:
    """Smooth shapes and noise, so that every filter shows."""
    rng = np.random.default_rng(seed)
    channels = {"RGB": 3, "RGBA": 4, "L": 1}[mode]
    coarse = rng.integers(0, 256, (4, 4, channels), dtype=np.uint8).squeeze()
    image = Image.fromarray(coarse, mode=None).resize((width, height), Image.Resampling.BICUBIC)
    noise = rng.integers(-20, 20, np.asarray(image).shape)
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def chat(theirs, question: str) -> str:
    import json

    content = [{"type": "image"}, {"type": "text", "text": question}]
    template = json.loads(theirs.chat_template)["chat_template"]
    return theirs.apply_chat_template(
        [{"role": "user", "content": content}], chat_template=template, add_generation_prompt=True
    )


class TestAgainstTransformers:
    @pytest.mark.parametrize("splitting", [True, False])
    @pytest.mark.parametrize("size", SIZES, ids=str)
    def test_pixels_and_ids_are_equal(self, theirs, prompt, folder, size, splitting):
        image = picture(*size)
        processor = TileProcessor.from_folder(folder).with_splitting(splitting)
        question = ask(PAPER_PROMPT, [CAPTIONS[0]])[0]
        expected = theirs(
            images=image,
            text=chat(theirs, question),
            do_image_splitting=splitting,
            return_tensors="np",
        )
        tiles = processor(image)
        pixels = normalise(tiles.pixels, processor.mean, processor.std)
        np.testing.assert_array_equal(pixels.transpose(0, 3, 1, 2), expected["pixel_values"][0])
        assert expected["pixel_attention_mask"].all(), "whole tiles: there is nothing to mask"
        ids = prompt.image_part(tiles.rows, tiles.columns) + prompt.question_part(question)
        np.testing.assert_array_equal(ids, expected["input_ids"][0])

    @pytest.mark.parametrize("splitting", [True, False])
    def test_smolvlm2_has_the_same_images(self, folder, splitting):
        """Of its processor the images only: all of it needs num2words, for videos."""
        pytest.importorskip("torch")
        from transformers import SmolVLMImageProcessorPil

        image = picture(300, 170)
        theirs = SmolVLMImageProcessorPil.from_pretrained(folder, do_image_splitting=splitting)
        processor = TileProcessor.from_folder(folder).with_splitting(splitting)
        pixels = normalise(processor(image).pixels, processor.mean, processor.std)
        expected = theirs(image, return_tensors="np")["pixel_values"][0]
        np.testing.assert_array_equal(pixels.transpose(0, 3, 1, 2), expected)

    @pytest.mark.parametrize("caption", CAPTIONS)
    def test_captions_of_all_kinds(self, theirs, prompt, caption):
        question = ask(PAPER_PROMPT, [caption])[0]
        image = picture(20, 20)
        expected = theirs(images=image, text=chat(theirs, question), do_image_splitting=False)
        ids = prompt.image_part(0, 0) + prompt.question_part(question)
        assert ids == expected["input_ids"][0]

    def test_greyscale(self, theirs, folder):
        processor = TileProcessor.from_folder(folder).with_splitting(False)
        image = picture(90, 60, seed=3, mode="L")
        assert image.mode == "L"
        self._same_tile(theirs, processor, image, image)

    def test_transparency_is_dropped_as_in_the_paper_or_laid_on_white(self, theirs, folder):
        """The paper's program converts to RGB itself, before any processor sees the picture."""
        processor = TileProcessor.from_folder(folder).with_splitting(False)
        image = picture(90, 60, seed=3, mode="RGBA")
        self._same_tile(theirs, processor, image, image.convert("RGB"))
        white = replace(processor, alpha="white")
        self._same_tile(theirs, white, image, image)
        assert (white(image).pixels != processor(image).pixels).any()

    def _same_tile(self, theirs, processor, ours, given_to_them):
        expected = theirs.image_processor(
            given_to_them, do_image_splitting=False, return_tensors="np"
        )
        pixels = normalise(processor(ours).pixels, processor.mean, processor.std)
        np.testing.assert_array_equal(pixels.transpose(0, 3, 1, 2), expected["pixel_values"][0])

    def test_every_grey_level(self, theirs):
        """transformers multiplies by 1/255 in float64, we divide in float32: the same floats."""
        levels = np.tile(np.arange(256, dtype=np.uint8)[:, None, None], (1, 1, 3))
        rescaled = theirs.image_processor.rescale(levels.transpose(2, 0, 1), 1 / 255)
        expected = theirs.image_processor.normalize(rescaled, [0.5] * 3, [0.5] * 3)
        np.testing.assert_array_equal(
            normalise(levels, (0.5,) * 3, (0.5,) * 3).transpose(2, 0, 1), expected
        )


class TestTiles:
    def test_published_numbers_of_tiles(self, folder):
        processor = TileProcessor.from_folder(folder)
        assert processor == TileProcessor()
        for size, rows, columns in (((64, 64), 4, 4), ((64, 48), 3, 4), ((48, 64), 4, 3)):
            tiles = processor(picture(*size))
            assert (tiles.rows, tiles.columns) == (rows, columns)
            assert tiles.pixels.shape == (rows * columns + 1, 512, 512, 3)

    @given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([64, 512]))
    def test_sizes(self, width, height, tile):
        """All that follows from the aspect: sides are multiples of a tile, none is empty."""
        scaled = scaled_size(width, height, 2048)
        assert max(scaled) == 2048
        assert min(scaled) >= 1
        tiled = tiled_size(*scaled, tile)
        assert all(side % tile == 0 and side > 0 for side in tiled)
        assert max(tiled) == 2048

    def test_small_pictures_need_no_tiles(self):
        tiles = TileProcessor(size=32, longest=32)(picture(10, 20))
        assert (tiles.rows, tiles.columns, len(tiles.pixels)) == (0, 0, 1)

    def test_settings_of_transformers_5_lie_inside_others(self, folder, tmp_path):
        import json

        fields = json.loads((folder / "preprocessor_config.json").read_text())
        fields["max_image_size"]["longest_edge"] = 384
        (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": fields}))
        assert TileProcessor.from_folder(tmp_path).size == 384

    def test_settings_that_cannot_be_followed(self, tmp_path):
        file = tmp_path / "preprocessor_config.json"
        file.write_text('{"do_image_splitting": true, "do_normalize": false}')
        with pytest.raises(InputError, match="do_normalize is false"):
            TileProcessor.from_folder(tmp_path)
        file.write_text('{"max_image_size": {"shortest_edge": 3}}')
        with pytest.raises(InputError, match="max_image_size"):
            TileProcessor.from_folder(tmp_path)

    def test_a_bad_picture_is_named_by_its_place(self, tmp_path):
        good = picture(8, 8)
        (tmp_path / "bad.png").write_bytes(b"no picture")
        processor = TileProcessor(8, 8)
        with pytest.raises(ImageError, match=r"bad\.png") as caught:
            processor.batch([good, tmp_path / "bad.png"])
        assert caught.value.position == 1
        same, again = processor.batch([good, good])
        assert same is again


class TestPrompt:
    def test_published_ids(self, prompt):
        image = prompt.image_part(2, 1)
        one = [49189, 49153, *[49190] * 64, 198]
        two = [49189, 49159, *[49190] * 64, 1116]  # "\n\n" is one token
        assert image[:1] == [1]
        assert image[-2 * 67 - 67 :] == [*one, *two, 49189, 49152, *[49190] * 64, 49189]
        assert prompt.image_token_id == 49190
        question = prompt.question_part("Is it?")
        end = question.index(49279)
        assert question[end + 1] == 198
        assert (prompt.answer_id("Yes"), prompt.answer_id("No")) == (9230, 2838)

    def test_what_cannot_be_asked(self, prompt):
        with pytest.raises(InputError, match=r"<image>.*change the caption"):
            prompt.question_part('Does this image show "an <image> of"?')
        with pytest.raises(InputError, match=r"has no \{text\}"):
            ask("Is it?", ["a cat"])
        with pytest.raises(InputError, match="caption 1 is ''"):
            ask(PAPER_PROMPT, ["a cat", ""])
        with pytest.raises(InputError, match=r"has \d tokens"):
            prompt.answer_id("Certainly not")

    def test_a_tokenizer_of_another_model(self, tmp_path):
        from tokenizers import Tokenizer, models

        with pytest.raises(InputError, match="does not exist"):
            PromptTokenizer.from_folder(tmp_path, 64)
        Tokenizer(models.BPE()).save(str(tmp_path / "tokenizer.json"))
        with pytest.raises(InputError, match="not SmolVLM's tokenizer"):
            PromptTokenizer.from_folder(tmp_path, 64)

    def test_padding(self):
        rows = [[5, 6, 7], [8]]
        np.testing.assert_array_equal(pad(rows, 4), [[5, 6, 7, 2], [8, 2, 2, 2]])
        np.testing.assert_array_equal(lengths(rows), [3, 1])
