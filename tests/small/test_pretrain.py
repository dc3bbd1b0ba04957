"""Pretraining: batch composition, the learned words, and which parameters each stage changes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.data.world import TrainingText, training_captions
from ttm_jax.data.world.training import training_scene
from ttm_jax.files import read_json
from ttm_jax.inputs.clean_text import canonical_siglip
from ttm_jax.load import load_model
from ttm_jax.small.batches import find_albums
from ttm_jax.small.ngrams import find_ngrams, label, ngrams
from ttm_jax.small.places import SIDE_WORDS, find_places, label_places, places
from ttm_jax.small.positions import learn_positions
from ttm_jax.small.pretrain import curve, make_module, pretrain, write_folder_files
from ttm_jax.small.recipe import RECIPES, Recipe, Stage
from ttm_jax.small.stages import learn_to_read, learn_together, learn_words
from ttm_jax.small.tokenizers import count_pieces, write_siglip_tokenizer
from ttm_jax.small.vary import vary

SCENES = [training_scene(0, number) for number in range(1500)]
ALBUMS = find_albums(SCENES, 3)


def looks(row: int) -> tuple[frozenset[str], frozenset[str]]:
    things = SCENES[row].things
    return frozenset(t.shape for t in things), frozenset(t.color for t in things)


def test_albums_hold_pictures_of_the_same_shapes_and_colours():
    batches = find_albums(SCENES, 3)
    assert len(batches.albums) > 5
    for album in batches.albums:
        assert len({looks(row) for row in album.tolist()}) == 1
        assert len(album) >= 3
    assert np.isclose(batches.weights.sum(), 1.0)


@given(share=st.floats(0, 1), size=st.integers(4, 40), seed=st.integers(0, 9))
def test_a_batch_has_its_size_and_its_albums(share, size, seed):
    rows = ALBUMS.draw(np.random.default_rng(seed), size, share, 3)
    assert len(rows) == size
    assert rows.min() >= 0
    assert rows.max() < len(SCENES)
    whole = int(size * share) // 3
    for album in rows[: 3 * whole].reshape(-1, 3).tolist():
        assert len({looks(row) for row in album}) == 1
        assert len(set(album)) == 3


def test_without_albums_a_batch_is_random():
    batches = find_albums(SCENES[:3], 3)
    assert not batches.albums
    assert len(batches.draw(np.random.default_rng(0), 8, 0.5, 3)) == 8


def test_pairs_of_words_bind_colours_and_relations_to_things():
    assert ngrams("a red star is to the left of a circle, as well as a ring") >= {
        ("red", "star"), ("star", "left"), ("left", "circle"), ("ring",)
    }  # fmt: skip
    assert ngrams("a red star") != ngrams("a star, red")


def test_labels_say_which_captions_have_which_ngrams():
    captions = training_captions(0, 50, TrainingText())
    known = find_ngrams(captions, 40)
    assert len(set(known)) == 40
    labels = label(captions, known)
    for row, caption in enumerate(captions):
        found = {known[column] for column in np.flatnonzero(labels[row])}
        assert found == ngrams(caption) & set(known)


def test_places_do_not_depend_on_the_order_of_mention():
    said = {("red", "left"), ("star", "left"), ("circle", "right")}
    assert places("a red star to the left of a circle") == said
    assert places("there is a circle on the right of a red star") == said
    assert places("a ring is higher than a disc") == {("ring", "above"), ("disc", "below")}
    assert places("a red star and a circle") == set()
    assert set(SIDE_WORDS.values()) == {"left", "right", "above", "below", "front", "behind"}


def test_labels_say_which_captions_state_which_places():
    captions = training_captions(0, 60, TrainingText(relation=1.0))
    known = find_places(captions)
    labels = label_places(captions, known)
    for row, caption in enumerate(captions):
        assert {known[column] for column in np.flatnonzero(labels[row])} == places(caption)


def test_a_curve_has_the_mean_of_each_portion():
    assert curve([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]
    assert curve([1.0, 2.0], 20) == [1.0, 2.0]
    assert len(curve(list(range(1000)), 20)) == 20


@pytest.fixture(scope="module", params=["siglip", "clip"])
def small(request) -> Recipe:
    stage = Stage(3, 1e-3)
    return replace(
        RECIPES[request.param],
        width=32, heads=1, depth=1, image_size=24, text_length=40, scenes=300, rewordings=2,
        batch=8, ngrams=20, album_size=2, words=stage, reading=stage, together=stage,
        positions=stage, rearranged=12,
    )  # fmt: skip


def test_each_stage_changes_what_it_should(small, tmp_path):
    scenes = SCENES[: small.scenes]
    captions = [training_captions(0, small.scenes, small.text, draw=draw) for draw in (0, 1)]
    tokenizer = write_folder_files(tmp_path, small, captions[0])
    tokens = np.stack([tokenizer(draw).ids for draw in captions])
    images = np.random.default_rng(0).integers(0, 256, (small.scenes, 24, 24, 3)).astype(np.uint8)
    module = make_module(small, tokenizer)
    first = module.init(jax.random.key(0), jnp.zeros((1, 24, 24, 3)), jnp.asarray(tokens[0, :1]))[
        "params"
    ]
    losses: list[float] = []

    def note(step, loss):
        losses.append(float(loss))

    words = learn_words(small, module, first, images, captions, note)
    batches = find_albums(scenes, 2)
    assert batches.albums
    read = learn_to_read(small, module, words, images, tokens, batches, note)
    both = learn_together(small, module, read, images, tokens, batches, note)
    last = learn_positions(small, module, both, images, captions, tokens, tokenizer, batches, note)
    assert len(losses) == 9 + 3 * small.rounds
    assert np.isfinite(losses).all()
    assert not same(first["img"], words["img"])
    assert same(first["txt"], words["txt"])
    assert same(words["img"], read["img"])
    assert not same(words["txt"], read["txt"])
    assert not same(read["img"], both["img"])
    assert not same(read["txt"], both["txt"])
    assert not same(both["img"], last["img"])
    assert not same(both["txt"], last["txt"])


def test_varied_images_differ_in_appearance_and_keep_their_content():
    images = np.zeros((64, 16, 16, 3), np.uint8) + 40
    images[:, :, 8:] = 200
    varied = vary(np.random.default_rng(0), images, 0.4)
    assert varied.dtype == np.uint8
    assert varied.shape == images.shape
    assert len({image.tobytes() for image in varied}) == len(images)
    assert (varied[:, :, 8:].mean(axis=(1, 2, 3)) > varied[:, :, :8].mean(axis=(1, 2, 3))).all()
    assert np.array_equal(vary(np.random.default_rng(0), images, 0.0), images)
    again = vary(np.random.default_rng(0), images, 0.4)
    assert np.array_equal(again, varied)


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))


def test_siglips_pieces_are_words_whatever_sentencepiece_is_installed(tmp_path):
    """Nothing is learned by sentencepiece, and the order of the captions does not matter."""
    captions = training_captions(0, 300)
    for name, texts in (("one", captions), ("two", captions[::-1])):
        (tmp_path / name).mkdir()
        write_siglip_tokenizer(tmp_path / name, texts, 20, vocabulary=256)
    files = [tmp_path / name / "spiece.model" for name in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(files[0]))
    for text in map(canonical_siglip, captions):
        assert pieces.encode(text, out_type=str) == ["\u2581" + word for word in text.split()]
    assert pieces.encode("giraffe", out_type=str) == ["\u2581", *"giraffe"]
    assert pieces.encode("starred", out_type=str) == ["\u2581star", *"red"]
    assert (pieces.pad_id(), pieces.eos_id(), pieces.unk_id(), pieces.bos_id()) == (0, 1, 2, -1)
    few = count_pieces(captions, 40)
    assert len(few) == 40
    assert few[0][0] == "\u2581a"  # the most frequent word


@pytest.mark.slow
def test_the_same_recipe_gives_the_same_model(small, tmp_path):
    records = [pretrain(small, tmp_path / name) for name in ("a", "b")]
    assert (
        records[0]["recipe"]
        == records[1]["recipe"]
        == read_json(tmp_path / "a/recipe.json")["recipe"]
    )
    a, b = (load_model(tmp_path / name) for name in ("a", "b"))
    assert same(a.params, b.params)
    assert set(records[0]["curves"]) == {"words", "reading", "together", "positions"}
    more = pretrain(small, tmp_path / "c", start=tmp_path / "a")
    assert {stage: len(values) for stage, values in more["curves"].items()} == {"positions": 3}
    assert more["start"]["minutes"] == records[0]["minutes"]
    assert not same(load_model(tmp_path / "c").params, a.params)
    captions = ["a red star", "a blue circle"]
    picture = np.zeros((40, 30, 3), np.uint8)
    assert a.score([picture], captions).shape == (1, 2)
