"""advice.json: what a model was made for, and captions that are far from it."""

import json
import re

import pytest

from ttm_jax.data import world
from ttm_jax.errors import InputError
from ttm_jax.inputs.model_advice import ADVICE, Advice, ForeignWordsWarning, read_advice
from ttm_jax.load import SMALL, load_model
from ttm_jax.small.settings import ABOUT, small_advice
from ttm_jax.small.settings import SMALL as SETTINGS


def test_a_folder_without_it_says_nothing(tmp_path):
    assert read_advice(tmp_path) == read_advice(None) == Advice()


@pytest.mark.parametrize(
    "content", ["[]", '{"word": []}', '{"words": [1]}', '{"about": 3}', '{"settings": []}', "{"]
)
def test_a_broken_one_is_refused(tmp_path, content):
    (tmp_path / ADVICE).write_text(content)
    with pytest.raises(InputError, match=re.escape(str(tmp_path / ADVICE))):
        read_advice(tmp_path)


@pytest.mark.parametrize("name", list(SMALL))
def test_the_small_models_know_every_word_of_the_world(name):
    advice = read_advice(SMALL[name])
    assert advice.about == ABOUT
    assert advice.settings == {"lr": 2e-4, "iterations": SETTINGS.iterations, "epochs": 10}
    for variant in world.VARIANTS:
        assert advice.foreign_words(world.make(variant, 5, size=16).captions) == []


def test_shipped_words_are_those_of_training():
    """A sample of the captions that they were trained on; the whole takes a minute."""
    made = small_advice(world.training_captions(0, 500))
    assert set(made["words"]) <= read_advice(SMALL["small-siglip"]).words
    assert json.dumps(made)


def test_words_of_photographs_are_a_clear_warning():
    model = load_model("small-clip")
    with pytest.warns(ForeignWordsWarning, match=r"3 of the 5 words .*\(cat, sleeps, sofa\)"):
        model.read_captions(["a cat sleeps on a sofa"])
    assert model.advice.foreign_words(["A RED circle, on the left!"]) == []
