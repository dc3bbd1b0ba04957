"""The paper's definitions implemented literally and without rounding: slow, but simple."""

import itertools
from fractions import Fraction

import numpy as np


def all_totals(scores: np.ndarray) -> dict[tuple[int, ...], Fraction]:
    """The exact total of every one-to-one matching of images into captions (images <= captions)."""
    images, texts = scores.shape
    exact = [[Fraction(float(value)) for value in row] for row in scores]
    return {
        matching: sum((exact[i][t] for i, t in enumerate(matching)), Fraction(0))
        for matching in itertools.permutations(range(texts), images)
    }


def best_matching(scores: np.ndarray) -> tuple[tuple[int, ...] | None, Fraction | None]:
    """The best matching (None if not unique) and its exact margin (None if it is the only one)."""
    images, texts = scores.shape
    if images > texts:
        by_text, margin = best_matching(scores.T)
        if by_text is None:
            return None, margin
        by_image = [-1] * images
        for text, image in enumerate(by_text):
            by_image[image] = text
        return tuple(by_image), margin
    totals = all_totals(scores)
    ranked = sorted(totals, key=totals.__getitem__, reverse=True)
    if len(ranked) == 1:
        return ranked[0], None
    margin = totals[ranked[0]] - totals[ranked[1]]
    return (ranked[0] if margin > 0 else None), margin


def pairs_of_every_best(scores: np.ndarray) -> dict[int, int]:
    """image -> caption for the pairs that all optimal assignments share."""
    images, texts = scores.shape
    if images > texts:
        return {i: t for t, i in pairs_of_every_best(scores.T).items()}
    totals = all_totals(scores)
    top = max(totals.values())
    best = [set(enumerate(matching)) for matching, total in totals.items() if total == top]
    return dict(set.intersection(*best))
