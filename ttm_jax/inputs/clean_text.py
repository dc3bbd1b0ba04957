"""The ways in which checkpoints expect captions to be cleaned before they are tokenized."""

import html
import re
import string
import unicodedata
from collections.abc import Callable, Iterable

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LOWER_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def unchanged(text: str) -> str:
    return text


def canonical_siglip(text: str) -> str:
    """SigLIP 1's evaluation text: lower case, no ASCII punctuation, single spaces.

    U+2581 is sentencepiece's own space marker, so it counts as a space.
    """
    text = text.replace("\u2581", " ").lower().translate(_NO_PUNCTUATION)
    return re.sub(r"\s+", " ", text).strip()


def lower_each(text: str) -> str:
    """SigLIP 2's text: lower-cased per character, as in transformers' Siglip2Tokenizer.

    (Python's own `lower` depends on the context of a Greek sigma.)
    """
    return "".join(map(str.lower, text))


def lower_ascii(text: str) -> str:
    """big_vision's lower-casing: TensorFlow's, which by default changes only ASCII letters."""
    return text.translate(_LOWER_ASCII)


# ---- OpenCLIP ------------------------------------------------------------------------------------


def _compatible(codes: Iterable[int]) -> dict[int, str]:
    return {code: unicodedata.normalize("NFKC", chr(code)) for code in codes}


# What ftfy, which OpenCLIP calls, replaces in text that was decoded correctly: ligatures, full and
# half width, curly quotes, line breaks, and characters that have no place in a text.
_LIGATURES = (0x132, 0x133, 0x149, *range(0x1C4, 0x1CD), *range(0x1F1, 0x1F4))
_WIDTHS = (0x3000, *range(0xFF01, 0xFFF0))
_REPLACED: dict[int, str | None] = {
    **_compatible((*_LIGATURES, *range(0xFB00, 0xFB07), *_WIDTHS)),
    **dict.fromkeys((0x2BC, *range(0x2018, 0x201C)), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys((0x0D, 0x85, 0x2028, 0x2029), "\n"),
    **dict.fromkeys((*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F), None),
    **dict.fromkeys((*range(0x206A, 0x2070), *range(0xFFF9, 0xFFFD), 0xFEFF), None),
    0x149: "'n",
    0xFB05: "\u017ft",
}
_TERMINAL = re.compile("\x1b\\[[\\d;]*[a-zA-Z]")
_ENTITY = re.compile(r"&#?\w{1,24};")


def repair(text: str) -> str:
    """What OpenCLIP does before everything else: ftfy's rules, HTML entities, outer spaces.

    ftfy also guesses where text was decoded with a wrong encoding, and decodes it anew. That is not
    done here: save such captions as UTF-8.
    """
    while True:
        before = text
        if "<" not in text:
            text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
        text = _TERMINAL.sub("", text).translate(_REPLACED)
        text = unicodedata.normalize("NFC", text)
        if text == before:
            return html.unescape(html.unescape(text)).strip()


def _single_spaces(text: str) -> str:
    return " ".join(repair(text).split())


def _lower(text: str) -> str:
    return _single_spaces(text).lower()


def _canonical(text: str) -> str:
    text = repair(text).replace("_", " ").translate(_NO_PUNCTUATION).lower()
    return " ".join(text.split())


# By the names that OpenCLIP has for them in `tokenizer_kwargs`.
OPEN_CLIP: dict[str, Callable[[str], str]] = {
    "lower": _lower,
    "whitespace": _single_spaces,
    "canonicalize": _canonical,
}
