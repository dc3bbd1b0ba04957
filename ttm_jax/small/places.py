"""Which thing is on which side, according to a caption.

"A red star left of a circle" and "a circle right of a red star" both say (red, left), (star, left)
and (circle, right). A single word of such a caption, or its order, says nothing about the picture;
only their combination does. The contrastive loss alone did not find it in 1,500 steps (siglip).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8

from ttm_jax.data.world.captions import RELATIONS
from ttm_jax.data.world.scene import OPPOSITE
from ttm_jax.small.ngrams import FUNCTION_WORDS

Place = tuple[str, str]


def _side_words() -> dict[str, str]:
    """The word of each relation that is not a function word: left, over, under, front, ..."""
    return {
        word: relation
        for relation, links in RELATIONS.items()
        for link in links
        for word in link.split()
        if word not in FUNCTION_WORDS
    }


SIDE_WORDS = _side_words()


def places(caption: str) -> set[Place]:
    """Pairs of a word and the side on which the thing that it describes is."""
    words = [w for w in caption.replace(",", "").split() if w not in FUNCTION_WORDS]
    for number, word in enumerate(words):
        if word in SIDE_WORDS:
            side = SIDE_WORDS[word]
            first = {(w, side) for w in words[:number]}
            return first | {(w, OPPOSITE[side]) for w in words[number + 1 :]}
    return set()


def find_places(captions: Sequence[str]) -> tuple[Place, ...]:
    return tuple(sorted({place for caption in set(captions) for place in places(caption)}))


def label_places(
    captions: Sequence[str], known: Sequence[Place]
) -> UInt8[np.ndarray, "caption place"]:
    """1 where a caption states a place."""
    column = {place: number for number, place in enumerate(known)}
    labels = np.zeros((len(captions), len(known)), np.uint8)
    for row, caption in enumerate(captions):
        labels[row, [column[place] for place in places(caption) if place in column]] = 1
    return labels
