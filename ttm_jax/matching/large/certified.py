"""The best assignment of all images and captions with a proof, without their matrix of scores.

1. Take the best few captions of each image and images of each caption, and some pairs with which
   an assignment is possible at all.
2. Solve the assignment on these pairs (`transport.py`): every image and caption gets a price.
3. Compare all pairs with their prices (`search.py`). If no pair is cheaper than its prices, the
   assignment is the best of all. Otherwise add such pairs, and go back to 2.

Equal images, or captions, are one node with several units. Scores are rounded to the grid of
`assignment.py`, on which sums are exact, so the result is that of a full matrix.
"""

import math
import time
from collections.abc import Callable

from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.problem import Problem
from ttm_jax.matching.large.result import Certified, Limits, Round, Start
from ttm_jax.matching.large.survey import survey

_CANDIDATES = 12  # per image and per caption in the first round


def assign_embeddings(
    given: Embeddings,
    *,
    start: Start | None = None,
    limits: Limits | None = None,
    on_round: Callable[[Round], None] = lambda found: None,
    candidates: int = _CANDIDATES,
    tile: tuple[int, int] | None = None,
) -> Certified:
    """Find the best assignment of all images and captions; see `match_global`.

    Args:
        given: The embeddings, checked.
        start: Prices and matching to begin with; they change how long it takes, and which of
            several equally good assignments is returned.
        limits: When to stop without a proof.
        on_round: Told about every round.
        candidates: Pairs of each image and caption to begin with.
        tile: Numbers of images and captions that are compared at a time.
    """
    from ttm_jax.matching.large.tiles import Tiles

    limits, began = limits or Limits(), time.monotonic()
    problem = Problem(given, start)
    tiles = Tiles(problem.distinct_embeddings(), tile)
    problem.begin(survey(tiles, candidates, *problem.survey_inputs()))
    rounds: list[Round] = []
    bound = -math.inf  # no assignment costs less
    while True:
        problem.transport.solve()
        found = problem.search(tiles)
        bound = max(bound, problem.transport.total - problem.short(found))
        gap = (problem.transport.total - bound) / max(problem.magnitude(), 1.0)
        seconds = time.monotonic() - began
        rounds.append(
            Round(len(rounds) + 1, len(problem.transport.cost), found.count, gap, seconds)
        )
        on_round(rounds[-1])
        if not found.count or seconds > limits.seconds or 0 < gap <= limits.gap:
            return problem.answer(found, tuple(rounds))
        problem.transport.add(found.rows, found.columns, found.cost, found.score)
