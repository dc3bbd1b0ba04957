"""Chance level of every metric for every group shape, in closed form.

The random model draws all scores independently from one continuous distribution (paper, Sec. 3.1
and App. A), so ties have probability 0. With more images than captions the sides are swapped.
"""

import math


def individual_match(images: int, texts: int) -> float:
    """A single image picks its caption among k: 1/k."""
    return 1 / max(images, texts)


def text_score(images: int, texts: int) -> float:
    """Every image picks its own caption, independently (images <= texts): 1/k^m."""
    return texts**-images


def image_score(images: int, texts: int) -> float:
    """Every caption picks its own image, independently (texts <= images)."""
    return images**-texts


def group_score(images: int, texts: int) -> float:
    """k x k: (k-1)! / (2k-1)! (Prop. 1). m x k with m < k: 1/k^m (Prop. 3)."""
    if images == texts:
        return math.factorial(images - 1) / math.factorial(2 * images - 1)
    return max(images, texts) ** -min(images, texts)


def group_match(images: int, texts: int) -> float:
    """One of all one-to-one matchings: 1/k! for k x k (Prop. 2), (k-m)!/k! for m x k (Prop. 4)."""
    return 1 / math.perm(max(images, texts), min(images, texts))


def global_match(images: int, texts: int) -> float:
    """Expected fraction of correct pairs: an image gets each caption with equal probability."""
    return 1 / max(images, texts)


def row_argmax(texts: int) -> float:
    """Expected fraction of images whose own caption has the highest score of all captions."""
    return 1 / texts
