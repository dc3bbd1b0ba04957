"""Words and bigrams of captions as image labels (Li et al., ICCV 2017).

Function words are removed first, so that "a red star left of a circle" has the bigrams red star,
star left, left circle: what the objects are, and where they are.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import UInt8

Ngram = tuple[str, ...]
FUNCTION_WORDS = frozenset((
    "a", "an", "and", "as", "by", "has", "in", "is", "it", "of", "on", "one", "than", "that", "the",
    "there", "this", "to", "together", "well", "with", "picture", "photo", "image", "drawing",
    "shows", "pattern",
))  # fmt: skip


def ngrams(caption: str) -> set[Ngram]:
    words = [w for w in caption.replace(",", "").split() if w not in FUNCTION_WORDS]
    return {(word,) for word in words} | set(pairwise(words))


def find_ngrams(captions: Sequence[str], most: int) -> tuple[Ngram, ...]:
    """The most frequent n-grams; ties are broken alphabetically, so the result is deterministic."""
    counts = Counter(ngram for caption in captions for ngram in ngrams(caption))
    return tuple(sorted(counts, key=lambda ngram: (-counts[ngram], ngram))[:most])


def label(captions: Sequence[str], known: Sequence[Ngram]) -> UInt8[np.ndarray, "caption ngram"]:
    """1 where a caption contains an n-gram."""
    column = {ngram: number for number, ngram in enumerate(known)}
    labels = np.zeros((len(captions), len(known)), np.uint8)
    for row, caption in enumerate(captions):
        labels[row, [column[ngram] for ngram in ngrams(caption) if ngram in column]] = 1
    return labels
