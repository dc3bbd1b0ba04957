"""SimpleMatch: overfit to the induced matchings, so that GroupMatch becomes GroupScore (Sec. 3.1).

The paper states that this is always possible; `simple_match` does it and reports how far it got.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.evaluation import evaluate
from ttm_jax.engine.model import Model
from ttm_jax.engine.pseudo_labels import induce
from ttm_jax.engine.ttm import Loop
from ttm_jax.errors import InputError
from ttm_jax.hosts.shared_folder import write_json
from ttm_jax.matching import metrics
from ttm_jax.runs.console import Console
from ttm_jax.training import sharding
from ttm_jax.training.batches import plan_batches

_EPOCHS_PER_ROUND = 5


@dataclass(frozen=True, eq=False)
class SimpleMatchResult:
    """The result of `simple_match`: the overfitted model, and how far its GroupScore followed."""

    agreement: float
    """Share of the groups with a unique initial matching for which the overfitted model's
    GroupScore is correct with that matching as the truth. At 1.0, GroupScore is what GroupMatch
    was."""
    epochs: int
    """How many epochs were trained."""
    raw_metrics: dict[str, Any]
    """Metrics of the original model, by name; empty if the truth is unknown."""
    metrics: dict[str, Any]
    """Metrics of the overfitted model."""
    scores: tuple[np.ndarray, ...] = field(repr=False)
    """Scores of the overfitted model, one array `[group, image, text]` per shape."""
    model: Any = field(repr=False)
    """The overfitted model."""

    @property
    def reached(self) -> bool:
        """Whether GroupScore follows the initial matching in every group."""
        return self.agreement == 1.0


def simple_match(
    model: Model,
    dataset: GroupedDataset,
    config: TTMConfig | None = None,
    run_dir: str | Path | None = None,
    seed: int = 0,
    *,
    max_epochs: int = 200,
    console: Console | None = None,
    devices: list | None = None,
) -> SimpleMatchResult:
    """Overfit a model to its own initial matchings, which turns GroupMatch into GroupScore.

    Trains on the matching of every group at a constant learning rate until the scores follow it. No
    labels are used: the model is trained on, and measured against, its own initial matchings. The
    given model is not changed.

    Args:
        model: The model to overfit, from `load_model`.
        dataset: Groups of any shape; global matching is not supported.
        config: Learning rate, batch size and optimizer; thresholds, schedule, iterations and
            epochs are ignored. The defaults of `TTMConfig` if None.
        run_dir: Write the metrics to `simple_match.json` in this folder; None writes nothing.
        seed: Determines the order of the batches.
        max_epochs: Stop after this many epochs, even if the scores do not follow yet.
        console: Where progress is shown; None shows nothing.
        devices: JAX devices to use; all of them if None.

    Returns:
        The overfitted model, its agreement with the initial matchings, and metrics.

    Raises:
        InputError: `config` asks for a global matching.

    Examples:
        >>> import ttm_jax
        >>> from ttm_jax.data import world
        >>> model = ttm_jax.load_model("small-siglip")
        >>> dataset = world.make("color_swap", groups=6)
        >>> found = ttm_jax.simple_match(model, dataset, ttm_jax.TTMConfig(lr=1e-3))
        >>> found.reached
        True
        >>> found.metrics["group_score"]["count"] == found.raw_metrics["group_match"]["count"]
        True
    """
    config = replace(
        config or TTMConfig(), schedule="constant", tau_1=0.0, epochs=_EPOCHS_PER_ROUND
    )
    if config.matching == "global":
        raise InputError("SimpleMatch overfits groups; for one global assignment use run_ttm")
    console = console or Console("quiet")
    task = model.bind(dataset, config, sharding.make_mesh(devices), seed)
    loop = Loop(task, dataset, config, seed)
    state = loop.trainer.start(task.initial.trained)
    raw = scores = loop.look(state, 0).scores
    labels = loop.select(raw, 0.0)
    examples, rng = task.examples(labels.matchings), np.random.default_rng([seed, 0])
    epochs, reached = 0, agreement(raw, raw)
    console.begin("SimpleMatch")
    while reached < 1.0 and epochs < max_epochs and len(labels.rows):
        plan = plan_batches(
            labels.rows,
            loop.batch,
            _EPOCHS_PER_ROUND,
            lambda steps: np.full(steps, config.lr),
            max_units=loop.units,
            rng=rng,
        )
        key = jax.random.fold_in(jax.random.key(seed), epochs)
        state, _ = loop.trainer.fit(state, examples, plan, key)
        epochs += _EPOCHS_PER_ROUND
        scores = loop.look(state, 0).scores
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
