"""Images and captions as OpenCLIP prepares them."""

import json
from pathlib import Path

import numpy as np
import pytest
from clip_bpe import write_clip_files
from paths import TESTS
from PIL import Image

from ttm_jax.errors import InputError
from ttm_jax.inputs import clean_text
from ttm_jax.inputs.image_resize import centre
from ttm_jax.inputs.preprocess import ImageProcessor
from ttm_jax.inputs.tokenize import load_tokenizer

ODD = [
    "",
    "   ",
    "Don\u2019t \u201cquote\u201d  it",
    "ＬＯＵＤ　ＮＯＩＳＥＳ",
    "ﬁne ﬂour &amp; caf&eacute;",
    "&amp;lt; 3 &quot;a&quot; &#8217;s",
    "<b>&rdquo;</b> a < b",
    "tab\tand\r\nnew\u2028line",
    "\ufeffbom \x1b[36mblue\x1b[0m bell\x07",
    "cafe\u0301 naïve İstanbul ΣΑΣ ß",
    "日本語の説明 кошка قطة ﾊﾝｶｸ",
    "emoji 🐈‍⬛ and ½ ①",
    "under_score, hyphen-ated; 3.14!",
    "non\u00a0breaking\u2003spaces",
    "AT&T this&not that",
]
CLEANED = [
    ("Don\u2019t \u201cquote\u201d  it", 'don\'t "quote" it', "dont quote it"),
    ("ＬＯＵＤ　ﬁsh &amp; Caf&eacute;", "loud fish & café", "loud fish café"),
    ("under_score, A-B", "under_score, a-b", "under score ab"),
    ("a &amp;lt; b\r\n c", "a < b c", "a b c"),
]


def sugarcrepe() -> list[str]:
    rows = [
        row
        for name in ("add_att", "swap_obj")
        for row in json.loads((TESTS / f"assets/sugarcrepe/{name}.json").read_text()).values()
    ]
    return [row[field] for row in rows for field in ("caption", "negative_caption")]


def write_config(folder: Path, text: dict | None = None, preprocess: dict | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    model = {"vision_cfg": {"image_size": 32}, "text_cfg": text or {"context_length": 77}}
    fields = {"model_cfg": model, "preprocess_cfg": preprocess or {}}
    (folder / "open_clip_config.json").write_text(json.dumps(fields))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = write_config(tmp_path_factory.mktemp("open_clip"))
    write_clip_files(path)
    return path


class TestCaptions:
    @pytest.mark.parametrize(("text", "lower", "canonical"), CLEANED)
    def test_cleaning(self, text, lower, canonical):
        assert clean_text.OPEN_CLIP["lower"](text) == lower
        assert clean_text.OPEN_CLIP["whitespace"](text).lower() == lower
        assert clean_text.OPEN_CLIP["canonicalize"](text) == canonical

    def test_ids_end_in_zeros(self, folder):
        tokenizer = load_tokenizer(folder, "clip")
        assert (tokenizer.length, tokenizer.pad_id) == (77, 0)
        ids = tokenizer(["A  photo of a &#99;at "]).ids[0]
        assert ids.tolist() == [49406, 320, 1125, 539, 320, 2368, 49407] + [0] * 70

    def test_as_open_clip(self, folder):
        pytest.importorskip("torch")
        try:
            from tiny_open_clip import open_clip
        except ImportError as error:
            pytest.skip(f"open_clip_torch is not installed: {error}")
        captions = [*sugarcrepe(), *ODD, "word " * 100]
        theirs = open_clip.SimpleTokenizer()(captions).numpy()
        with pytest.warns(UserWarning, match="longer than 77"):
            ours = load_tokenizer(folder, "clip")(captions).ids
        np.testing.assert_array_equal(ours, theirs)
        for name, clean in clean_text.OPEN_CLIP.items():
            expected = open_clip.tokenizer.get_clean_fn(name)
            assert [clean(text) for text in captions] == [expected(text) for text in captions]

    def test_files_from_another_folder(self, folder, tmp_path):
        bare = write_config(tmp_path / "bare", {"context_length": 12})
        tokenizer = load_tokenizer(bare, "clip", vocabulary_from=folder)
        assert (tokenizer.length, tokenizer.pad_id) == (12, 0)

    def test_a_tokenizer_of_the_hub(self, folder, tmp_path):
        text = {"context_length": 9, "hf_tokenizer_name": "openai/clip-vit-large-patch14"}
        named = write_config(tmp_path / "named", text)
        tokenizer = load_tokenizer(named, "clip", vocabulary_from=folder)
        assert (tokenizer.length, tokenizer.pad_id) == (9, 49407)
        assert tokenizer.clean("A\u2019  b") == "A' b"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ({"tokenizer_mode": "clips"}, "tokenizer_mode is 'clips'"),
            ({"tokenizer_kwargs": {"clean": "upper"}}, "clean is 'upper'.*'lower' or"),
            ({"tokenizer_kwargs": {"strip_sep_token": True}}, "strip_sep_token is True"),
            ({"tokenizer_kwargs": {"reduction_mask": "random"}}, "reduction_mask is 'random'"),
        ],
    )
    def test_other_tokenizers_are_refused(self, folder, tmp_path, text, message):
        bare = write_config(tmp_path / "bare", {"context_length": 77, **text})
        with pytest.raises(InputError, match=rf"open_clip_config\.json: text_cfg.*{message}"):
            load_tokenizer(bare, "clip", vocabulary_from=folder)


class TestImages:
    def test_defaults(self, folder):
        processor = ImageProcessor.from_folder(folder, "clip")
        assert (processor.kind, processor.size) == ("shorter_side+rounded_crop", 32)
        assert processor.resample is Image.Resampling.BICUBIC
        clip = ImageProcessor.for_family("clip")
        assert (processor.mean, processor.std) == (clip.mean, clip.std)

    def test_as_preprocess_cfg_says(self, tmp_path):
        given = {"mean": [0.5] * 3, "std": 0.25, "interpolation": "bilinear", "fill_color": 0}
        given |= {"resize_mode": "squash", "mode": "RGB", "size": None}
        processor = ImageProcessor.from_folder(write_config(tmp_path, None, given), "clip")
        assert processor.kind == "squash"
        assert processor.resample is Image.Resampling.BILINEAR
        assert (processor.mean, processor.std) == ((0.5,) * 3, (0.25,) * 3)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"resize_mode": "longest"}, "resize_mode is 'longest'.*'shortest' or 'squash'"),
            ({"interpolation": "lanczos"}, "interpolation is 'lanczos'"),
            ({"std": [1, 0, 1]}, "std is"),
            ({"other": 3}, "other is 3"),
        ],
    )
    def test_others_are_refused(self, tmp_path, given, message):
        with pytest.raises(InputError, match=rf"open_clip_config\.json: .*{message}"):
            ImageProcessor.from_folder(write_config(tmp_path, None, given), "clip")

    def test_the_crop_is_rounded_as_in_torchvision(self):
        """int(round(cut / 2)): 1 -> 0, 3 -> 2, 5 -> 2, 7 -> 4; transformers takes cut // 2."""
        for cut, (rounded, floored) in {
            0: (0, 0),
            1: (0, 0),
            3: (2, 1),
            5: (2, 2),
            7: (4, 3),
        }.items():
            rows = np.arange(4 + cut, dtype=np.uint8)
            picture = np.broadcast_to(rows[:, None, None], (4 + cut, 4, 3))
            assert centre(picture, 4, "shorter_side+rounded_crop")[0, 0, 0] == rounded
            assert centre(picture, 4)[0, 0, 0] == floored

    def test_pixels(self, folder):
        """Shorter side to 32 with Pillow, longer side rounded down, rounded crop."""
        rng = np.random.default_rng(0)
        picture = Image.fromarray(rng.integers(0, 256, (40, 44, 3), np.uint8))
        expected = np.asarray(picture.resize((35, 32), Image.Resampling.BICUBIC))[:, 2:34]
        found = ImageProcessor.from_folder(folder, "clip")(picture)
        np.testing.assert_array_equal(found, expected)
