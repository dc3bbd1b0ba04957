"""Write scores_2x2.npz: what a weak but not worthless model might give on 400 groups of 2 x 2.

    python examples/make_scores.py

Nothing here was measured. A score is the sum of what the model thinks of the image, of the caption,
and of the pair: the first two are large and say nothing, the last is small and leans to the truth.
Comparisons across a row or a column drown in the first two; the sum over a matching has all of
them, whatever the matching, so they cancel. That is why the group match is so much higher here, as
the paper finds for real models.
"""

from pathlib import Path

import numpy as np

GROUPS = 400
# How much the model sees of each kind of difference, in units of its noise.
LEANING = {"object": 0.55, "attribute": 0.35, "relation": 0.15}


def make_scores(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores [group, image, text], rounded as a model card would print them, and a tag a group."""
    rng = np.random.default_rng(seed)
    tags = rng.choice(list(LEANING), size=GROUPS, p=[0.35, 0.25, 0.4])
    leaning = np.array([LEANING[tag] for tag in tags])[:, None, None]
    of_image = rng.normal(scale=1.5, size=(GROUPS, 2, 1))
    of_caption = rng.normal(scale=1.5, size=(GROUPS, 1, 2))
    of_pair = rng.normal(size=(GROUPS, 2, 2)) + 2 * leaning * np.eye(2)
    return np.round(of_image + of_caption + of_pair - 4, 3).astype(np.float32), tags


if __name__ == "__main__":
    scores, tags = make_scores()
    np.savez_compressed(Path(__file__).parent / "scores_2x2.npz", scores=scores, tags=tags)
