"""Token ids: those of transformers where it is right, and the same in every version of it."""

import io
import itertools
import json
import re
import string
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from clip_bpe import byte_symbols, clip_merges, clip_vocabulary, write_clip_files
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TESTS

from ttm_jax.errors import InputError
from ttm_jax.inputs.tokenize import (
    CaptionWarning,
    canonical_siglip,
    load_tokenizer,
    lower_ascii,
    lower_each,
    warn_identical,
)

ASSETS = TESTS / "assets"
ODD = [
    "",
    "   ",
    "...",
    "!a",
    "Hello, World!",
    "  two  spaces  here ",
    "tab\tand\nnewline\r\n",
    "don't we'll they've I'm she'd it's you're",
    "it's 3.14 o'clock on 2024-05-06, 1,000,000 times",
    "UPPER lower MiXeD",
    "hyphen-ated under_score a/b (c) [d] {e} \"f\" 'g'",
    "café naïve Ünïcödé ß İstanbul ΣΑΣ",
    "cafe\u0301 combining",
    "日本語の説明 кошка قطة",
    "emoji 🐈‍⬛ and ½ ① ﬁne",
    "non\u00a0breaking\u2003spaces\u3000here",
    "zero\u200bwidth",
    "a ▁ b",
    "- a - b -",
]


@cache
def sugarcrepe() -> tuple[str, ...]:
    rows = [
        row
        for name in ("add_att", "swap_obj")
        for row in json.loads((ASSETS / f"sugarcrepe/{name}.json").read_text("utf-8")).values()
    ]
    return tuple(row[field] for row in rows for field in ("caption", "negative_caption"))


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    write_clip_files(folder)
    return folder


@pytest.fixture(scope="session")
def clip(clip_folder):
    return load_tokenizer(clip_folder, "clip")


@cache
def clip_ranks() -> dict[tuple[str, str], int]:
    return {pair: i for i, pair in enumerate(clip_merges())}


@cache
def plain_clip_word(word: str) -> tuple[int, ...]:
    """Byte-pair encoding of one word by the definition: merge the pair of the lowest rank first."""
    never = len(clip_ranks())
    parts = [byte_symbols()[b] for b in word.encode()]
    parts[-1] += "</w>"
    while len(parts) > 1:
        ranks = [clip_ranks().get(pair, never) for pair in itertools.pairwise(parts)]
        if min(ranks) == never:
            break
        at = ranks.index(min(ranks))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return tuple(clip_vocabulary()[part] for part in parts)


def plain_clip(caption: str) -> list[int]:
    """The ids of an ASCII caption, without start and end."""
    words = re.findall(r"'s|'t|'re|'ve|'m|'ll|'d|[a-z]+|[0-9]|[^\sa-z0-9]+", caption.lower())
    return [i for word in words for i in plain_clip_word(word)]


class TestClip:
    def test_shape_and_frame(self, clip):
        assert (clip.length, clip.vocab_size, clip.pad_id) == (77, 49408, 49407)
        ids = clip(["a photo of a cat", ""]).ids
        assert ids.dtype == np.int32
        assert ids.shape == (2, 77)
        # The ids of OpenAI's own tokenizer for this well-known prompt.
        assert ids[0, :7].tolist() == [49406, 320, 1125, 539, 320, 2368, 49407]
        assert ids[1, :2].tolist() == [49406, 49407]
        assert (ids[0, 7:] == clip.pad_id).all()

    def test_all_sugarcrepe_captions_as_in_transformers(self, clip, clip_folder):
        from transformers import CLIPTokenizerFast

        captions = [*sugarcrepe(), *ODD]
        theirs = CLIPTokenizerFast.from_pretrained(clip_folder)(
            captions, padding="max_length", truncation=True, max_length=77
        )["input_ids"]
        ours = clip(captions)
        assert len(captions) > 1800
        np.testing.assert_array_equal(ours.ids, np.asarray(theirs))
        assert not ours.truncated.any()

    def test_all_sugarcrepe_captions_by_the_definition(self, clip):
        captions = [c for c in sugarcrepe() if c.isascii()]
        assert len(captions) > 1800
        ids = clip(captions).ids
        for caption, row in zip(captions, ids, strict=True):
            expected = [49406, *plain_clip(caption), 49407]
            assert row[: len(expected)].tolist() == expected

    def test_only_tokenizer_json(self, clip, clip_folder, tmp_path):
        from transformers import CLIPTokenizerFast

        CLIPTokenizerFast.from_pretrained(clip_folder).save_pretrained(tmp_path)
        file = tmp_path / "tokenizer.json"
        for other in tmp_path.iterdir():
            if other != file:
                other.unlink()
        captions = [*sugarcrepe()[:200], *ODD]
        for source in (tmp_path, file):
            np.testing.assert_array_equal(
                load_tokenizer(source, "clip")(captions).ids, clip(captions).ids
            )

    def test_pad_of_the_checkpoint(self, clip_folder, tmp_path):
        for file in ("vocab.json", "merges.txt"):
            (tmp_path / file).symlink_to(clip_folder / file)
        config = {"pad_token": {"__type": "AddedToken", "content": "!"}, "model_max_length": 1e30}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        tokenizer = load_tokenizer(tmp_path, "clip")
        assert tokenizer.pad_id == 0
        assert tokenizer(["cat"]).ids[0].tolist() == [49406, 2368, 49407] + [0] * 74


def train_sentencepiece(normalizer: str = "nmt_nfkc", **options) -> bytes:
    """A small unigram model with the special ids of SigLIP's c4_en: pad 0, eos 1, unk 2."""
    model = io.BytesIO()
    defaults = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "vocab_size": 600}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([c.lower() for c in sugarcrepe()]),
        model_writer=model,
        normalization_rule_name=normalizer,
        minloglevel=2,
        num_threads=1,
        **{**defaults, **options},
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def siglip_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("siglip")
    (folder / "spiece.model").write_bytes(train_sentencepiece())
    return folder


@pytest.fixture(scope="session")
def siglip(siglip_folder):
    return load_tokenizer(siglip_folder, "siglip")


class TestSiglip:
    def test_shape_and_frame(self, siglip):
        assert (siglip.length, siglip.pad_id, siglip.eos_id, siglip.bos_id) == (64, 1, 1, None)
        assert siglip.vocab_size == 600
        ids = siglip(["a man", ""]).ids
        assert ids.dtype == np.int32
        assert ids.shape == (2, 64)
        used = int(np.argmax(ids[0] == 1))
        assert 0 < used < 10
        assert (ids[0, used:] == 1).all()
        assert (ids[1] == 1).all()

    def test_as_in_transformers(self, siglip, siglip_folder):
        from transformers import SiglipTokenizer

        theirs = SiglipTokenizer(str(siglip_folder / "spiece.model"))
        captions = [*sugarcrepe(), *ODD, *(f" {c.upper()} ;" for c in sugarcrepe()[:100])]
        captions += ["word " * 80]
        expected = theirs(captions, padding="max_length", truncation=True, max_length=64)
        with pytest.warns(CaptionWarning):
            ours = siglip(captions)
        np.testing.assert_array_equal(ours.ids, np.asarray(expected["input_ids"]))

    def test_only_tokenizer_json(self, siglip, siglip_folder, tmp_path):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        model = sentencepiece.SentencePieceProcessor(model_file=str(siglip_folder / "spiece.model"))
        pieces = [(model.id_to_piece(i), model.get_score(i)) for i in range(len(model))]
        unigram = Tokenizer(models.Unigram(pieces, unk_id=2))
        unigram.normalizer = normalizers.NFKC()
        unigram.pre_tokenizer = pre_tokenizers.Metaspace()
        unigram.save(str(tmp_path / "tokenizer.json"))
        other = load_tokenizer(tmp_path, "siglip")
        assert (other.eos_id, other.pad_id) == (1, 1)
        captions = [c for c in sugarcrepe() if len(c) < 120]
        np.testing.assert_array_equal(other(captions).ids, siglip(captions).ids)

    def test_special_tokens_in_a_caption_are_text(self, siglip):
        # transformers would end the caption in the middle.
        np.testing.assert_array_equal(siglip(["a </s> cat"]).ids, siglip(["a s cat"]).ids)

    def test_big_vision_keeps_punctuation(self, siglip, siglip_folder):
        big_vision = load_tokenizer(siglip_folder, "siglip", canonicalise="big_vision")
        model = sentencepiece.SentencePieceProcessor(model_file=str(siglip_folder / "spiece.model"))
        captions = [*sugarcrepe()[:300], "Hello, World!", "it's"]
        for caption, row in zip(captions, big_vision(captions).ids, strict=True):
            expected = model.encode(caption.lower())
            assert row[: len(expected) + 1].tolist() == [*expected, 1]
        assert (big_vision(["a cat."]).ids != siglip(["a cat."]).ids).any()
        np.testing.assert_array_equal(big_vision(["A CAT"]).ids, siglip(["a cat"]).ids)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("A Cat.", "a cat"),
            ("don't", "dont"),
            ("a - b", "a b"),
            (" \t a \n\n b  ", "a b"),
            ("hyphen-ated", "hyphenated"),
            ("curly \u201cquotes\u201d stay", "curly \u201cquotes\u201d stay"),
            ("a\u00a0b\u2581c", "a b c"),
            ("ÉCLAIR", "éclair"),
            (string.punctuation, ""),
        ],
    )
    def test_canonical_text(self, text, expected):
        assert canonical_siglip(text) == expected

    @given(st.text(max_size=40))
    @settings(max_examples=200, deadline=None)
    def test_canonical_text_is_as_in_transformers_and_stable(self, text):
        from transformers import SiglipTokenizer

        bare = SiglipTokenizer.__new__(SiglipTokenizer)
        bare.__dict__["do_lower_case"] = True
        clean = canonical_siglip(text)
        assert clean == SiglipTokenizer.canonicalize_text(bare, text.replace("\u2581", " "))
        assert not set(clean) & set(string.punctuation)
        assert clean == canonical_siglip(f"  {text} !")

    def test_lower_case_of_the_others(self):
        assert lower_ascii("ÀB, Cé!  ") == "Àb, cé!  "
        assert lower_each("ÀB, CΣ!  ") == "àb, cσ!  "

    def test_length_comes_from_the_files(self, siglip_folder, tmp_path):
        (tmp_path / "spiece.model").symlink_to(siglip_folder / "spiece.model")
        (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 16}')
        assert load_tokenizer(tmp_path, "siglip").length == 16
        (tmp_path / "config.json").write_text('{"text_config": {"max_position_embeddings": 12}}')
        assert load_tokenizer(tmp_path, "siglip").length == 12
        assert load_tokenizer(tmp_path, "siglip", length=7)(["a"]).ids.shape == (1, 7)
        with pytest.raises(InputError, match="length is 1 tokens"):
            load_tokenizer(tmp_path, "siglip", length=1)


@pytest.fixture(scope="session")
def gemma_files(tmp_path_factory) -> Path:
    """A small tokenizer of Gemma's make: byte fallback, no prefix space, pad 0, eos 1, bos 2."""
    folder = tmp_path_factory.mktemp("gemma")
    proto = train_sentencepiece(
        "identity",
        model_type="bpe",
        vocab_size=900,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        byte_fallback=True,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        bos_id=2,
        unk_id=3,
    )
    (folder / "tokenizer.model").write_bytes(proto)
    return folder


@pytest.fixture(scope="session")
def gemma_json(gemma_files, tmp_path_factory) -> Path:
    """What transformers' own class saves, after it was told to pad and to truncate."""
    transformers = pytest.importorskip("transformers", minversion="5")
    from transformers.tokenization_utils_sentencepiece import SentencePieceExtractor

    folder = tmp_path_factory.mktemp("siglip2")
    model = SentencePieceExtractor(str(gemma_files / "tokenizer.model"))
    vocabulary, _, merges = model.extract(None)
    tokenizer = transformers.Siglip2Tokenizer(vocab=vocabulary, merges=merges)
    tokenizer(["a"], padding="max_length", truncation=True, max_length=8)
    tokenizer.save_pretrained(folder)
    return folder


class TestSiglip2:
    def test_frame(self, gemma_json):
        tokenizer = load_tokenizer(gemma_json, "siglip")
        assert (tokenizer.length, tokenizer.pad_id, tokenizer.eos_id) == (64, 0, 1)
        assert tokenizer.bos_id is None
        ids = tokenizer(["a man"]).ids[0]
        used = int(np.argmax(ids == 1))
        assert used > 0
        assert 2 not in ids
        assert (ids[used + 1 :] == 0).all()

    def test_json_as_in_transformers(self, gemma_json):
        from transformers import Siglip2Tokenizer

        captions = [*sugarcrepe()[:400], *ODD]
        theirs = Siglip2Tokenizer.from_pretrained(gemma_json)
        expected = theirs(captions, add_special_tokens=False)["input_ids"]
        rows = load_tokenizer(gemma_json, "siglip")(captions).ids
        for row, tokens in zip(rows, expected, strict=True):
            assert row[: len(tokens[:63]) + 1].tolist() == [*tokens[:63], 1]

    def test_json_and_sentencepiece_agree(self, gemma_json, gemma_files):
        captions = [c.upper() for c in sugarcrepe()[:400]]
        from_json = load_tokenizer(gemma_json, "siglip")(captions).ids
        from_model = load_tokenizer(gemma_files, "siglip")(captions).ids
        np.testing.assert_array_equal(from_json, from_model)
        bare = load_tokenizer(gemma_files / "tokenizer.model", "siglip")
        np.testing.assert_array_equal(bare(captions).ids, from_model)

    def test_lower_case_and_punctuation(self, gemma_files):
        for canonicalise in ("transformers", "big_vision"):
            tokenizer = load_tokenizer(gemma_files, "siglip", canonicalise=canonicalise)
            np.testing.assert_array_equal(tokenizer(["A Cat."]).ids, tokenizer(["a cat."]).ids)
            assert (tokenizer(["a cat."]).ids != tokenizer(["a cat"]).ids).any()


class TestWarnings:
    def test_truncated_captions(self, clip, siglip):
        captions = ["a cat", "dog " * 80, "short", "bird " * 90]
        for tokenizer in (clip, siglip):
            with pytest.warns(
                CaptionWarning, match=r"2 of 4 captions .* truncated, e\.g\. 'dog dog"
            ) as w:
                result = tokenizer(captions)
            assert len(w) == 1
            assert "..." in str(w[0].message)
            assert result.truncated.tolist() == [False, True, False, True]
            assert (result.ids[[1, 3], -1] == tokenizer.eos_id).all()

    def test_exact_fit_is_not_truncated(self, clip):
        full = clip(["cat " * 75])
        assert not full.truncated.any()
        with pytest.warns(CaptionWarning, match="1 of 1"):
            cut = clip(["cat " * 76])
        np.testing.assert_array_equal(cut.ids, full.ids)

    def test_identical_captions_of_a_group(self, siglip):
        captions = ["A cat.", "a cat", "a dog", "a bird", "a DOG!", "a fish"]
        ids = siglip(captions).ids
        index = np.array([[0, 2], [0, 1], [3, 5], [2, 4]], np.int32)
        message = r"2 of 4 groups .*e\.g\. g1 \('A cat\.', 'a cat'\); g3 \('a dog', 'a DOG!'\)"
        with pytest.warns(CaptionWarning, match=message):
            found = warn_identical(["g0", "g1", "g2", "g3"], index, ids, captions)
        assert found == ("g1", "g3")

    def test_identical_captions_of_different_groups_are_fine(self, siglip):
        captions = ["a cat", "A cat!", "a dog"]
        ids = siglip(captions).ids
        index = np.array([[0, 2], [1, 2]], np.int32)
        assert warn_identical(["g0", "g1"], index, ids, captions) == ()
        assert warn_identical([], np.zeros((0, 2), np.int32), ids, captions) == ()

    def test_identical_far_apart_in_a_larger_group(self, siglip):
        captions = ["a cat", "a dog", "a bird", "A CAT"]
        with pytest.warns(CaptionWarning, match="1 of 1 groups"):
            found = warn_identical(["g"], np.array([[0, 1, 2, 3]]), siglip(captions).ids, captions)
        assert found == ("g",)


class TestErrors:
    @pytest.mark.parametrize(
        ("family", "names"), [("clip", r"tokenizer\.json, vocab\.json"), ("siglip", "spiece.model")]
    )
    def test_no_tokenizer(self, tmp_path, family, names):
        with pytest.raises(InputError, match=f"no tokenizer in .*looked for {names}"):
            load_tokenizer(tmp_path, family)

    def test_vocab_without_merges(self, tmp_path):
        (tmp_path / "vocab.json").write_text("{}")
        with pytest.raises(InputError, match=r"no merges\.txt"):
            load_tokenizer(tmp_path, "clip")

    @pytest.mark.parametrize(
        ("family", "name"), [("siglip", "spiece.model"), ("siglip", "tokenizer.json"),
                             ("clip", "tokenizer.json"), ("clip", "vocab.json")]
    )  # fmt: skip
    def test_broken_files_are_named(self, tmp_path, family, name):
        (tmp_path / name).write_bytes(b"{broken")
        (tmp_path / "merges.txt").write_text("#version: 0.2\n")
        with pytest.raises(InputError, match=re.escape(name)):
            load_tokenizer(tmp_path, family)

    def test_wrong_family(self, siglip_folder):
        with pytest.raises(InputError, match=r"spiece\.model has no token '<\|endoftext\|>'"):
            load_tokenizer(siglip_folder / "spiece.model", "clip")

    def test_captions_that_are_not_text(self, siglip):
        with pytest.raises(InputError, match=r"caption 1 .*surrogate.*'\\ud800'"):
            siglip(["a", "\ud800"])

    def test_no_captions(self, siglip, clip):
        assert siglip([]).ids.shape == (0, 64)
        assert clip([]).ids.shape == (0, 77)


def test_import_is_light():
    heavy = "{'jax', 'transformers', 'sentencepiece', 'PIL'} & set(sys.modules)"
    command = [sys.executable, "-c", f"import sys, ttm_jax.inputs.tokenize; print({heavy})"]
    assert subprocess.check_output(command, text=True).strip() == "set()"
