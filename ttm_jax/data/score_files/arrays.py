"""What a score file holds, whatever its format."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """Scores `[group, image, text]` or, for a global matching, `[image, text]` or `Embeddings`.

    `truth` is `[group, image]` (or `[image]`), None if the file does not say; `tags` has one tuple
    for each group, or is empty.
    """

    scores: Any
    truth: np.ndarray | None = None
    tags: tuple[tuple[str, ...], ...] = ()
    decoys: np.ndarray | None = None
    """`[group, draw, image, text]`: the captions of each group with images of other groups."""
    named: bool = False
    """Whether images and captions are named, as in a file that `ttm score` has written."""
    unpaired: bool = False
    """Whether the file says that the order of the images has nothing to do with the captions."""
