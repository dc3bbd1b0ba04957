"""SimpleMatch: overfit to the induced matchings, and GroupMatch becomes GroupScore (Sec. 3.1).

The paper says that this can always be done; `simple_match` does it and says how far it got.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ttm_jax import metrics, sharding
from ttm_jax.config import TTMConfig
from ttm_jax.console import Console
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.evaluation import evaluate
from ttm_jax.files import write_json
from ttm_jax.pseudo_labels import induce
from ttm_jax.train import plan_batches
from ttm_jax.ttm import Loop

_EPOCHS_A_ROUND = 5


@dataclass(frozen=True, eq=False)
class SimpleMatchResult:
    """`agreement` is the share of the groups with a unique matching on which the overfitted model's
    GroupScore is that matching: at 1.0, its GroupScore is what GroupMatch was."""

    agreement: float
    epochs: int
    raw_metrics: dict[str, Any]
    metrics: dict[str, Any]
    scores: tuple[np.ndarray, ...] = field(repr=False)
    model: Any = field(repr=False)

    @property
    def reached(self) -> bool:
        return self.agreement == 1.0


def simple_match(
    model: Any,
    dataset: GroupedDataset,
    config: TTMConfig | None = None,
    run_dir: str | Path | None = None,
    seed: int = 0,
    *,
    max_epochs: int = 200,
    console: Console | None = None,
    devices: list | None = None,
) -> SimpleMatchResult:
    """Train on the matching of every group at a constant rate until the scores follow it.

    No labels are used: the model is trained towards, and measured against, its own first matching.
    """
    config = replace(config or TTMConfig(), schedule="constant", tau_1=0.0, epochs=_EPOCHS_A_ROUND)
    if config.matching == "global":
        raise InputError("SimpleMatch overfits groups; for one global assignment use run_ttm")
    console = console or Console("quiet")
    task = model.bind(dataset, config, sharding.make_mesh(devices), seed)
    loop = Loop(task, dataset, config, seed)
    state = loop.trainer.start(task.initial.trained)
    raw = scores = loop.score(state, 0)
    labels = loop.select(raw, 0.0)
    examples, rng = task.examples(labels.matchings), np.random.default_rng([seed, 0])
    epochs, reached = 0, agreement(raw, raw)
    console.begin("SimpleMatch")
    while reached < 1.0 and epochs < max_epochs and len(labels.rows):
        plan = plan_batches(
            labels.rows,
            loop.batch,
            _EPOCHS_A_ROUND,
            lambda steps: np.full(steps, config.lr),
            max_units=loop.units,
            rng=rng,
        )
        key = jax.random.fold_in(jax.random.key(seed), epochs)
        state, _ = loop.trainer.fit(state, examples, plan, key)
        epochs += _EPOCHS_A_ROUND
        scores = loop.score(state, 0)
        reached = agreement(scores, raw)
        console.progress(epochs, max_epochs)
    console.end()
    result = SimpleMatchResult(
        agreement=reached,
        epochs=epochs,
        raw_metrics=evaluate(raw, dataset, "group"),
        metrics=evaluate(scores, dataset, "group"),
        scores=scores,
        model=task.adapted(state.trained),
    )
    if run_dir is not None:
        names = ("agreement", "epochs", "raw_metrics", "metrics")
        write_json(
            Path(run_dir) / "simple_match.json", {name: getattr(result, name) for name in names}
        )
    return result


def agreement(scores: tuple[np.ndarray, ...], first: tuple[np.ndarray, ...]) -> float:
    """GroupScore of `scores` where the truth is the unique matching of the `first` scores."""
    right = total = 0
    for new, induced in zip(scores, induce(first, "group"), strict=True):
        kept = induced.unique
        if kept.any():
            rate = metrics.evaluate(new[kept], induced.matching[kept]).rates()["group_score"]
            right, total = right + rate.count, total + rate.of
    return right / total if total else 1.0
