"""What is kept of the scores of all pairs where they are too many for a matrix."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int32

from ttm_jax.matching.checks import UNMATCHED
from ttm_jax.matching.large.certified import assign_embeddings
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.result import Certified, Limits, Round, Start
from ttm_jax.matching.large.survey import RowSummary

MOST_PAIRS = 25_000_000
"""Up to so many pairs a matrix is as fast (5,000 x 5,000; benchmarks/README.md)."""

# Arrays as they are stored, with the side that gives their length.
STORED = {
    "matching": ("i4", 0), "similarity": ("f4", 0), "unique": ("u1", 0), "first": ("i4", 0),
    "first_score": ("f4", 0), "second": ("i4", 0), "second_score": ("f4", 0),
    "log_total": ("f8", 0), "image_price": ("f8", 0), "text_price": ("f8", 1),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class PairScores:
    """One assignment of all images to captions, and each image's best two captions."""

    matching: Int32[np.ndarray, " image"]
    """The caption of each image; -1 if it has none."""
    similarity: Float32[np.ndarray, " image"]
    """The score of each image with its caption; -inf if it has none."""
    unique: Bool[np.ndarray, " image"]
    """Whether every optimal assignment has this pair."""
    summary: RowSummary
    """The best two captions of each image."""
    start: Start
    """Where the next, similar problem begins."""
    last_round: Round | None = None
    """Whether the assignment is proved, and otherwise how far it may be from the optimum; None for
    scores that were read from a file."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """As of an array of scores: one group, images, captions."""
        return 1, len(self.matching), len(self.start.text_price)

    def __len__(self) -> int:
        return 1

    @property
    def runner_up(self) -> Int32[np.ndarray, " image"]:
        """The best caption of each image besides its own; -1 if there is no other."""
        own = self.summary.first == self.matching
        return np.where(own, self.summary.second, self.summary.first).astype(np.int32)

    @property
    def confidence(self) -> np.ndarray:
        """The share of each image's caption among all captions: a softmax over its scores."""
        return np.exp(self.similarity.astype(np.float64) - self.summary.log_total)

    @property
    def report(self) -> dict[str, Any]:
        """For the log of a run: what proves the assignment, or bounds what is missing."""
        found = self.last_round
        if found is None:
            return {}
        return {
            "proved": found.violations == 0,
            "gap": found.gap,
            "violations": found.violations,
            "rounds": found.number,
            "pairs": found.pairs,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that is stored, by name; 0 instead of -inf."""
        s = self.summary
        found = {
            "matching": self.matching,
            "similarity": np.where(self.matching == UNMATCHED, 0, self.similarity),
            "unique": self.unique,
            "first": s.first,
            "first_score": s.first_score,
            "second": s.second,
            "second_score": np.where(s.second < 0, 0, s.second_score),
            "log_total": s.log_total,
            "image_price": self.start.image_price,
            "text_price": self.start.text_price,
        }
        return {name: found[name].astype(STORED[name][0]) for name in STORED}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "PairScores":
        """The same from what was stored."""
        matching, second = arrays["matching"], arrays["second"]
        return cls(
            matching=matching,
            similarity=np.where(matching == UNMATCHED, np.float32(-np.inf), arrays["similarity"]),
            unique=arrays["unique"] == 1,
            summary=RowSummary(
                arrays["first"],
                arrays["first_score"],
                second,
                np.where(second < 0, np.float32(-np.inf), arrays["second_score"]),
                arrays["log_total"],
            ),
            start=Start(arrays["image_price"], arrays["text_price"], matching),
        )


def too_many(images: int, texts: int) -> bool:
    """Whether the scores of all pairs are not computed at once."""
    return images * texts > MOST_PAIRS


def pair_scores(
    given: Embeddings,
    *,
    start: Start | None = None,
    limits: Limits | None = None,
    on_round: Callable[[Round], None] = lambda found: None,
) -> PairScores:
    """Find the best assignment of all images and captions, and what else is kept of their scores.

    Args:
        given: The embeddings of images and captions.
        start: Where to begin: that of the `PairScores` of a similar problem.
        limits: When to stop without a proof.
        on_round: Told about every round.

    Raises:
        InputError: The embeddings do not fit together, or are not finite.
    """
    found: Certified = assign_embeddings(
        given.checked(), start=start, limits=limits, on_round=on_round
    )
    return PairScores(
        matching=found.matching,
        similarity=found.similarity.astype(np.float32),
        unique=found.unique,
        summary=found.summary,
        start=found.start,
        last_round=found.rounds[-1],
    )
