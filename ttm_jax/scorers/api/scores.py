"""From replies to scores[group, image, text], what to do about missing answers, and score files."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.files import write_atomic
from ttm_jax.scorers.api.fetch import Replies
from ttm_jax.scorers.api.reply import ANSWERED, Answer, TokenRule, read_answer

MissingPolicy = Literal["fail", "zero", "drop"]
_WEAK = 0.5  # if Yes and No together have less, the model would rather have said something else
_MOST_NAMED = 3  # missing answers that an error message lists


@dataclass(frozen=True, eq=False)
class RunScores:
    """One run. `scores` has one array per block, with NaN for missing answers.

    `kinds` counts the answers to distinct pairs by kind; `weak` counts the answers in which Yes and
    No together have less than half of the probability.
    """

    run: int
    scores: tuple[np.ndarray, ...]
    kinds: dict[str, int]
    weak: int
    unanswered: list[dict[str, Any]]


def read_run(replies: Replies, run: int, rule: TokenRule = "variants") -> RunScores:
    """The scores of one run. `rule` says which tokens count as Yes and No."""
    dataset = replies.plan.dataset
    answers: dict[tuple[int, int], Answer] = {}
    unanswered = []
    for request in replies.plan.requests:
        if request.run != run:
            continue
        reply = replies.by_key[request.key]
        answer = answers[request.image, request.caption] = read_answer(reply, rule)
        if answer.kind not in ANSWERED:
            unanswered.append(
                {
                    "run": run,
                    "kind": answer.kind,
                    "groups": _groups_with(dataset, request.image, request.caption),
                    "caption": dataset.captions[request.caption],
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


def resolve_missing(
    run: RunScores, dataset: GroupedDataset, policy: MissingPolicy
) -> tuple[GroupedDataset, tuple[np.ndarray, ...]]:
    """The data and finite scores for the metrics.

    "fail" raises `InputError` if an answer is missing. "zero" scores a missing answer 0, as
    t2v_metrics does. "drop" leaves out groups with a missing answer, so the metrics are over fewer
    groups.
    """
    if not run.unanswered:
        return dataset, run.scores
    if policy == "fail":
        raise InputError(
            f"{describe_missing([run])}. All answers are kept; choose to score the missing ones 0 "
            "(zero) or to leave out their groups (drop)"
        )
    if policy == "zero":
        return dataset, tuple(np.nan_to_num(block, nan=0.0) for block in run.scores)
    kept = [np.isfinite(block).all(axis=(1, 2)) for block in run.scores]
    blocks, scores = [], []
    for block, values, keep in zip(dataset.blocks, run.scores, kept, strict=True):
        if keep.any():
            blocks.append(_select(block, np.flatnonzero(keep)))
            scores.append(values[keep])
    if not blocks:
        raise InputError(f"run {run.run}: every group has a missing answer, so no group is left")
    return replace(dataset, blocks=tuple(blocks)), tuple(scores)


def describe_missing(runs: list[RunScores]) -> str:
    """How many answers are missing, of which kind, and the first of them."""
    missing = [entry for run in runs for entry in run.unanswered]
    total = sum(sum(run.kinds.values()) for run in runs)
    kinds = Counter(entry["kind"] for entry in missing)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    named = "; ".join(
        f"run {entry['run']}, group {entry['groups'][0]}, {entry['caption']!r}"
        for entry in missing[:_MOST_NAMED]
    )
    more = "; ..." if len(missing) > _MOST_NAMED else ""
    return f"{len(missing)} of {total} answers hold neither Yes nor No ({counted}): {named}{more}"


def write_scores(
    folder: Path, run: int, dataset: GroupedDataset, scores: tuple[np.ndarray, ...]
) -> list[Path]:
    """Write `run_N.npz`, or one file per shape (`run_N_2x2.npz`) if there are several shapes."""
    written = []
    for block, values in zip(dataset.blocks, scores, strict=True):
        rows, columns = block.shape
        shape = f"_{rows}x{columns}" if len(dataset.blocks) > 1 else ""
        written.append(folder / f"run_{run}{shape}.npz")
        arrays: dict[str, Any] = _arrays(block, values)
        write_atomic(written[-1], partial(np.savez, **arrays))
    return written


def _arrays(block: Block, scores: np.ndarray) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"scores": scores, "ids": np.array(block.ids, dtype=np.str_)}
    if block.truth is not None:
        arrays["truth"] = block.truth
    most = max(map(len, block.tags), default=0)
    if most:
        rows = [(*tags, *[""] * (most - len(tags))) for tags in block.tags]
        arrays["tags"] = np.array(rows, dtype=np.str_)
    return arrays


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


def _select(block: Block, rows: np.ndarray) -> Block:
    return Block(
        ids=tuple(block.ids[r] for r in rows),
        image_index=block.image_index[rows],
        text_index=block.text_index[rows],
        truth=None if block.truth is None else block.truth[rows],
        tags=tuple(block.tags[r] for r in rows) if block.tags else (),
    )
