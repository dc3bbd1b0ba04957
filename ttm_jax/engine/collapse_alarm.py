"""Does a run get worse? Noticed without labels, from what every iteration has logged.

Two signs: the estimated share of right matchings falls clearly below an earlier one, or the model
prefers fewer and fewer captions. Each names an iteration to go back to.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.matching.large.pair_scores import PairScores
from ttm_jax.training.task import Scores

_FEW = 0.5  # of the variety of captions at the start
_ENOUGH = 0.75

Row = dict[str, Any]


def caption_variety(scores: Scores, text_index: Sequence[np.ndarray]) -> float:
    """How many different captions the images prefer, in effect: the exponential of the entropy."""
    chosen = np.concatenate(
        [
            np.take_along_axis(index, _preferred(values), axis=1).reshape(-1)
            for values, index in zip(scores, text_index, strict=True)
        ]
    )
    counts = np.unique(chosen, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _preferred(scores: np.ndarray | PairScores) -> np.ndarray:
    """The best caption of each image of each group, on its own."""
    if isinstance(scores, PairScores):
        return scores.summary.first[None]
    return scores.argmax(axis=2)


def alarm(rows: Sequence[Row]) -> Row | None:
    """{"back_to", "why"} if the last of these iterations is worse than an earlier one."""
    *earlier, last = rows
    return (_fallen(earlier, last) or _concentrated(earlier, last)) if earlier else None


def advice(row: Row, run_dir: Path | None) -> str:
    """What to tell people when a row has an alarm."""
    found = row["alarm"]
    at = found["back_to"]
    if run_dir is None:
        back = (
            f"a run of {at} iterations would be better" if at else "the unadapted model is better"
        )
    else:
        back = f"to go back: ttm export {run_dir} --iteration {at} FOLDER"
    return f"iteration {row['iteration']} looks worse: {found['why']}; {back}"


def best_iteration(rows: Sequence[Row]) -> int | None:
    """The iteration with the highest estimated accuracy; None without estimates."""
    known = [row for row in rows if row.get("estimate")]
    if not known:
        return None
    return int(max(known, key=lambda row: row["estimate"]["accuracy"]["value"])["iteration"])


def worth_keeping(rows: Sequence[Row]) -> frozenset[int]:
    """The iterations that an alarm could name; their checkpoints must not be deleted."""
    found = [best_iteration(rows), _last_with_variety(rows)]
    return frozenset(at for at in found if at is not None)


def _fallen(earlier: Sequence[Row], last: Row) -> Row | None:
    at = best_iteration(earlier)
    if at is None or not last.get("estimate"):
        return None
    before, now = earlier[at]["estimate"]["accuracy"], last["estimate"]["accuracy"]
    if now["high"] >= before["low"]:
        return None
    return {
        "back_to": at,
        "why": f"the estimated share of right matchings fell from {100 * before['value']:.0f} % "
        f"(iteration {at}) to {100 * now['value']:.0f} %",
    }


def _concentrated(earlier: Sequence[Row], last: Row) -> Row | None:
    if "captions" not in last or "captions" not in earlier[0]:
        return None
    start, now = earlier[0]["captions"], last["captions"]
    if now >= _FEW * start:
        return None
    return {
        "back_to": _last_with_variety(earlier),
        "why": f"the model prefers few captions: in effect {now:.0f}, and {start:.0f} at the start",
    }


def _last_with_variety(rows: Sequence[Row]) -> int | None:
    """The last iteration that prefers about as many captions as the first; None if unknown."""
    if not rows or "captions" not in rows[0]:
        return None
    enough = _ENOUGH * rows[0]["captions"]
    return int([row["iteration"] for row in rows if row["captions"] >= enough][-1])
