"""From replies to scores[group, image, text], and what to do where there is no answer."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.scorers.api.answers import ANSWERED, Answer, Rule, read_answer
from ttm_jax.scorers.api.score import Replies

Neither = Literal["fail", "zero", "drop"]
_WEAK = 0.5  # Yes and No together have less: the model would rather have said something else
_NAMED_AT_MOST = 3


@dataclass(frozen=True, eq=False)
class RunScores:
    """One run: `scores` of every block, NaN where there is no answer; `kinds` counts the answers of
    distinct pairs, `weak` those in which Yes and No have less than half of the probability.
    """

    run: int
    scores: tuple[np.ndarray, ...]
    kinds: dict[str, int]
    weak: int
    unanswered: list[dict[str, Any]]


def read_run(replies: Replies, run: int, rule: Rule = "variants") -> RunScores:
    """The scores of a run, by the rule for Yes and No."""
    dataset = replies.plan.dataset
    answers: dict[tuple[int, int], Answer] = {}
    unanswered = []
    for job in replies.plan.jobs:
        if job.run != run:
            continue
        reply = replies.by_key[job.key]
        answer = answers[job.image, job.caption] = read_answer(reply, rule)
        if answer.kind not in ANSWERED:
            unanswered.append(
                {
                    "run": run,
                    "kind": answer.kind,
                    "groups": _groups_with(dataset, job.image, job.caption),
                    "caption": dataset.captions[job.caption],
                    "said": reply.refusal or reply.content,
                    "likeliest": [list(pair) for pair in (reply.top or ())[:5]],
                }
            )
    return RunScores(
        run=run,
        scores=tuple(_block_scores(block, answers) for block in dataset.blocks),
        kinds=dict(Counter(answer.kind for answer in answers.values())),
        weak=sum(a.mass < _WEAK for a in answers.values() if a.kind in ANSWERED),
        unanswered=unanswered,
    )


def settle(
    run: RunScores, dataset: GroupedDataset, neither: Neither
) -> tuple[GroupedDataset, tuple[np.ndarray, ...]]:
    """Data and finite scores for the metrics, by the choice that the user made.

    "fail" refuses, "zero" scores a missing answer 0 as t2v_metrics does, "drop" leaves groups with
    a missing answer out, so that the metrics are of fewer groups.
    """
    if not run.unanswered:
        return dataset, run.scores
    if neither == "fail":
        raise InputError(explain([run]))
    if neither == "zero":
        return dataset, tuple(np.nan_to_num(block, nan=0.0) for block in run.scores)
    kept = [np.isfinite(block).all(axis=(1, 2)) for block in run.scores]
    blocks, scores = [], []
    for block, values, keep in zip(dataset.blocks, run.scores, kept, strict=True):
        if keep.any():
            blocks.append(_part(block, np.flatnonzero(keep)))
            scores.append(values[keep])
    if not blocks:
        raise InputError(f"run {run.run}: every group has a missing answer; nothing is left")
    return replace(dataset, blocks=tuple(blocks)), tuple(scores)


def explain(runs: list[RunScores]) -> str:
    """How many answers are missing, where, and what the choices are."""
    missing = [entry for run in runs for entry in run.unanswered]
    total = sum(sum(run.kinds.values()) for run in runs)
    kinds = Counter(entry["kind"] for entry in missing)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    named = "; ".join(
        f"run {entry['run']}, group {entry['groups'][0]}, {entry['caption']!r}"
        for entry in missing[:_NAMED_AT_MOST]
    )
    more = "; ..." if len(missing) > _NAMED_AT_MOST else ""
    return (
        f"{len(missing)} of {total} answers hold neither Yes nor No ({counted}): {named}{more}. "
        "All answers are kept: choose --neither zero (their score is 0, as in t2v_metrics) or "
        "--neither drop (their groups are left out); it costs nothing more"
    )


def _block_scores(block: Block, answers: dict[tuple[int, int], Answer]) -> np.ndarray:
    scores = np.full((len(block), *block.shape), np.nan, np.float64)
    for g, i, t in np.ndindex(scores.shape):
        answer = answers[int(block.image_index[g, i]), int(block.text_index[g, t])]
        if answer.score is not None:
            scores[g, i, t] = answer.score
    return scores


def _groups_with(dataset: GroupedDataset, image: int, caption: int) -> list[str]:
    return [
        block.ids[g]
        for block in dataset.blocks
        for g in np.flatnonzero(
            (block.image_index == image).any(axis=1) & (block.text_index == caption).any(axis=1)
        )
    ]


def _part(block: Block, rows: np.ndarray) -> Block:
    return Block(
        ids=tuple(block.ids[r] for r in rows),
        image_index=block.image_index[rows],
        text_index=block.text_index[rows],
        truth=None if block.truth is None else block.truth[rows],
        tags=tuple(block.tags[r] for r in rows) if block.tags else (),
    )
