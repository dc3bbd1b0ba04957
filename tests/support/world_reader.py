"""Reads captions and images of the world without using the code that generated them."""

import re

import numpy as np

from ttm_jax.data.world.captions import SYNONYMS, Mention
from ttm_jax.data.world.render import PALETTE
from ttm_jax.data.world.scene import COLORS, SHAPES, TEXTURES


def mention_of(text: str) -> Mention:
    """An independent parser of a phrase, to check the output of `say`."""
    words = text.replace(",", "").split()
    usual = {s: word for word, options in SYNONYMS.items() for s in options}
    for phrase, name in (("plus sign", "cross"), ("lightning bolt", "bolt")):
        if phrase in text:
            words.append(name)
    texture_nouns = {"stripes": "striped", "dots": "dotted", "spots": "dotted", "checks": "checked"}
    known = {usual.get(w, texture_nouns.get(w, w)) for w in words}

    def only(names) -> str | None:
        found = sorted(known & set(names))
        assert len(found) <= 1, (text, found)
        return found[0] if found else None

    shape = only(SHAPES)
    assert shape is not None, text
    return Mention(shape, only(COLORS), only(TEXTURES), only(("small", "large")))


def mentions_of(caption: str) -> list[Mention]:
    """A phrase starts at every article that does not belong to an opener or a pattern."""
    text = re.sub(
        r"^(a picture of|an image of|a drawing of|a photo of|there is|this shows) ", "", caption
    )
    text = re.sub(r"with an? (striped|checkered) pattern", r"\1", text)
    parts = [p for p in re.split(r"\b(?:an?) ", text) if p]
    return [mention_of(p) for p in parts]


def pixels_of(picture: np.ndarray, color: str) -> np.ndarray:
    """Rows and columns, as fractions, of the pixels with a colour of the palette."""
    distance = {c: np.abs(picture.astype(int) - rgb).sum(-1) for c, rgb in PALETTE.items()}
    near = (distance[color] < 60) & (distance[color] == np.min(list(distance.values()), axis=0))
    return np.argwhere(near) / picture.shape[0]
