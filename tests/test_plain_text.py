"""Text for terminals and messages: nothing in it commands anything, and ordinary text is kept."""

import unicodedata

import pytest
from hostile import TEXTS
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.plain_text import for_reading, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a red cat", "a red cat"),
        ("eine rote Tür, 赤い ドア, 🐈\u200d⬛", "eine rote Tür, 赤い ドア, 🐈\u200d⬛"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b2J\x7f\x00", "\\x9b2J\\x7f\\x00"),
        ("\u202eabc\u2066\u2028", "\\u202eabc\\u2066\\u2028"),
        ("\udcff", "\\udcff"),  # a byte of a file name that is not UTF-8
        ("[/red] :skull:", "[/red] :skull:"),
    ],
)
def test_examples(text, shown):
    assert one_line(text) == shown


@given(st.text(st.characters()))
def test_any_text(text):
    shown = one_line(text)
    assert not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in shown)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert one_line(shown) == shown


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_text(text):
    assert len(one_line(text).splitlines()) == 1
    assert one_line(text).isprintable()


def test_running_text_fits_a_terminal_and_is_one_line_elsewhere(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = "drawings of shapes; use google/siglip-base-patch16-224-and-a-long-name for others"
    lines = for_reading(text, True).splitlines()
    assert " ".join(lines) == text  # no word is broken
    assert [len(line) > 40 for line in lines] == [False, True, False]
    assert for_reading(text, False) == text
