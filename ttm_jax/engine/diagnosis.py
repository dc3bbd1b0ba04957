"""Does the model know anything about this data, and how much? Answered without labels.

    found = diagnose(model, dataset)
    print(found.sentence)

A run asks the same after every iteration (`estimates`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ttm_jax.config import Prior, TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.evaluation import evaluate
from ttm_jax.engine.model import Model
from ttm_jax.engine.pseudo_labels import Induced, first_threshold, induce, right_units
from ttm_jax.engine.scores_and_decoys import LEAST_GROUPS, Look, Looker, decoy_blocks
from ttm_jax.errors import InputError
from ttm_jax.matching import chance
from ttm_jax.matching.decoys import (
    DRAWS,
    Estimate,
    Margins,
    estimate_accuracy,
    estimate_precision,
    knows_nothing,
    tau_for_precision,
)
from ttm_jax.matching.thresholds import select_global
from ttm_jax.training import sharding

_SIGNIFICANT = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What can be said about a model on a dataset before anything is trained."""

    margins: Margins
    """Of all groups and their decoys."""
    p_value: float
    """Of the hypothesis that the model knows nothing: its groups look like decoys."""
    accuracy: Estimate
    """The estimated share of all groups whose matching is right."""
    tau: float
    """The first threshold that a run would use."""
    selected: int
    """How many groups it selects."""
    precision: Estimate
    """The estimated share of them that is right."""
    prior: Prior = "none"
    """How the captions' prior was treated."""
    with_prior_removed: "Diagnosis | None" = None
    """The same with prior "subtract", where groups have fewer images than captions."""
    true_accuracy: float | None = None
    """The actual share, if the truth is known; not used for anything else."""
    true_precision: float | None = None
    """The same for the selected groups."""
    blind_accuracy: float | None = None
    """The share that would be right with unrelated images, if the truth is known."""

    @property
    def grounded_gain(self) -> float | None:
        """How much more is right than with unrelated images; None if the truth is unknown."""
        if self.true_accuracy is None or self.blind_accuracy is None:
            return None
        return self.true_accuracy - self.blind_accuracy

    def __repr__(self) -> str:
        groups = len(self.margins.groups)
        return f"Diagnosis({groups} groups, p = {self.p_value:.2g}; {self.sentence})"

    @property
    def go_ahead(self) -> bool:
        """Whether Test-Time Matching has something to amplify."""
        return _go_ahead(self.margins, self.p_value, self.precision)

    @property
    def sentence(self) -> str:
        """The verdict for people."""
        level = 100 * float(self.margins.chance.mean())
        if self.go_ahead:
            p = self.precision
            return (
                f"go ahead: of the first {self.selected} groups, about {100 * p.value:.0f} % are "
                f"right (95 % interval {100 * p.low:.0f} to {100 * p.high:.0f} %, chance "
                f"{level:.0f} %)"
            )
        if self.with_prior_removed is not None and self.with_prior_removed.go_ahead:
            p = self.with_prior_removed.precision
            return (
                "go ahead with the captions' prior removed (prior subtract): of the first "
                f"{self.with_prior_removed.selected} groups, about {100 * p.value:.0f} % are right "
                f"(95 % interval {100 * p.low:.0f} to {100 * p.high:.0f} %, chance {level:.0f} %). "
                "Without that, the prior hides what the model knows"
            )
        if self.p_value >= _SIGNIFICANT:
            why = (
                "the margins of the groups are no larger than those of decoys, which have no right "
                f"matching (p = {self.p_value:.2g})"
            )
        else:
            why = (
                "the first groups cannot be told from chance (estimated precision "
                f"{100 * self.precision.value:.0f} %, 95 % interval from "
                f"{100 * self.precision.low:.0f} %, chance {level:.0f} %)"
            )
        return (
            f"no evidence that the model knows anything here: {why}. Training may amplify noise; "
            "check some of the most confident matchings by hand first"
        )


def diagnose(
    model: Model,
    dataset: GroupedDataset,
    config: TTMConfig | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Diagnosis:
    """Compare the margins of a model on a dataset with those of decoys.

    Args:
        model: The model, from `load_model`.
        dataset: The groups. Their truth, if known, is reported beside the estimates and used for
            nothing else.
        config: The settings of the run that is planned; the defaults of `TTMConfig` if None.
        draws: Decoys per group; fewer if the data does not have as many groups.
        seed: Which groups serve as decoys.

    Returns:
        The estimates and a verdict.

    Raises:
        InputError: The matching is global, there are fewer than 20 groups, or a group has no
            decoys.

    Examples:
        >>> import ttm_jax
        >>> from ttm_jax.data import world
        >>> model = ttm_jax.load_model("small-siglip")
        >>> found = ttm_jax.diagnose(model, world.make("left_right", groups=40))
        >>> found.go_ahead
        True
    """
    return diagnose_and_evaluate(model, dataset, config, draws=draws, seed=seed)[0]


def diagnose_and_evaluate(
    model: Model,
    dataset: GroupedDataset,
    config: TTMConfig | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[Diagnosis, dict[str, dict[str, Any]]]:
    """The diagnosis, and from the same scores every metric, as `evaluation.evaluate` gives them."""
    config = config or TTMConfig()
    why_not = why_no_diagnosis(dataset, config)
    if why_not is not None:
        raise InputError(why_not)
    plain = TTMConfig(
        dtype=config.dtype, precision=config.precision, placement=config.placement,
        prior=config.prior,
    )  # fmt: skip
    task = model.bind(dataset, plain, sharding.make_mesh(), 0)
    looker = Looker(task, dataset, config, decoy_blocks(dataset, draws, seed))
    leftover = any(images < texts for images, texts in (b.shape for b in dataset.blocks))
    more = leftover and task.embeds and config.prior == "none"
    totals = more or config.prior != "none"
    found = task.score_further(task.initial.trained, looker.decoys, totals=totals)
    result = judge(dataset, looker.view(found, config.prior), config)
    if more:
        other = judge(dataset, looker.view(found, "subtract"), replace(config, prior="subtract"))
        result = replace(result, with_prior_removed=other)
    return result, evaluate(found.scores, dataset, "group")


def why_no_diagnosis(dataset: GroupedDataset, config: TTMConfig) -> str | None:
    """The reason if there is none for such data; None if there is one."""
    if config.matching == "global":
        return "a diagnosis needs groups; without groups there are no decoys"
    if len(dataset) < LEAST_GROUPS:
        return f"{dataset.name} has {len(dataset)} groups; a diagnosis needs {LEAST_GROUPS} or more"
    try:
        decoy_blocks(dataset, draws=1)
    except InputError as error:
        return str(error)
    return None


def judge(dataset: GroupedDataset, look: Look, config: TTMConfig) -> Diagnosis:
    """The diagnosis from one look at the groups and their decoys."""
    induced = induce(look.scores, "group")
    margins = margins_of(dataset, induced, look)
    tau = first_tau(dataset, look, config)
    least = least_margin(induced, tau, config)
    selected = (margins.groups >= least) & margins.usable
    right = right_units(dataset.blocks, induced, "group") if dataset.has_truth else None
    correct = None if right is None else np.concatenate(right)
    return Diagnosis(
        margins=margins,
        p_value=knows_nothing(margins),
        accuracy=estimate_accuracy(margins),
        tau=tau,
        selected=int(selected.sum()),
        precision=estimate_precision(margins, least),
        prior=config.prior,
        true_accuracy=None if correct is None else float(correct.mean()),
        true_precision=None
        if correct is None or not selected.any()
        else float(correct[selected].mean()),
        blind_accuracy=blind_accuracy(dataset, look),
    )


def first_tau(dataset: GroupedDataset, look: Look, config: TTMConfig) -> float:
    """The first threshold: given, by the precision that is wanted, or by coverage.

    Raises:
        InputError: No threshold has the wanted precision.
    """
    if config.tau_1 is not None:
        return config.tau_1
    induced = induce(look.scores, config.matching)
    if config.first_precision is None:
        return first_threshold(induced, config.tau_unit, config.first_coverage)
    tau = tau_for_precision(margins_of(dataset, induced, look), config.first_precision)
    if tau is None:
        raise InputError(
            f"no threshold selects groups of which {100 * config.first_precision:.0f} % are right, "
            "as far as decoys can tell: ask for a lower first_precision, or use coverage; "
            "`ttm diagnose` shows what there is"
        )
    return tau


def least_margin(induced: tuple[Induced, ...], tau: float, config: TTMConfig) -> float:
    """The margin from which on `tau` selects a group; the same, unless tau counts a fraction."""
    if config.tau_unit != "fraction":
        return tau
    margins = np.concatenate([block.confidence for block in induced])
    usable = np.concatenate([block.unique for block in induced])
    chosen = select_global(margins, usable, tau)
    return float(margins[chosen].min()) if chosen.any() else math.inf


def estimates(
    dataset: GroupedDataset, look: Look, tau: float, config: TTMConfig
) -> dict[str, Any] | None:
    """What can be said without labels about a model, and what `tau` would select; for a run's log.

    None if there are no decoys.
    """
    if look.decoys is None:
        return None
    induced = induce(look.scores, "group")
    margins = margins_of(dataset, induced, look)
    precision = estimate_precision(margins, least_margin(induced, tau, config))
    p_value = knows_nothing(margins)
    return {
        "tau": tau,
        "precision": vars(precision),
        "accuracy": vars(estimate_accuracy(margins)),
        "p_value": p_value,
        "go_ahead": _go_ahead(margins, p_value, precision),
    }


def _go_ahead(margins: Margins, p_value: float, precision: Estimate) -> bool:
    return p_value < _SIGNIFICANT and precision.low > float(margins.chance.mean())


def blind_accuracy(dataset: GroupedDataset, look: Look) -> float | None:
    """The share of right matchings with unrelated images; None if the truth is unknown."""
    if not dataset.has_truth or look.decoys is None:
        return None
    right = []
    for block, found in zip(dataset.blocks, induce(look.decoys, "group"), strict=True):
        assert block.truth is not None  # has_truth
        truth = np.repeat(block.truth, len(found.unique) // len(block), axis=0)
        right.append(((found.matching == truth).all(axis=1) & found.unique).mean())
    weights = [len(block) for block in dataset.blocks]
    return float(np.average(right, weights=weights))


def margins_of(dataset: GroupedDataset, induced: tuple[Induced, ...], look: Look) -> Margins:
    """All blocks together; a block with fewer decoys per group than another repeats its own."""
    assert look.decoys is not None
    noise, level = [], []
    for block, other in zip(dataset.blocks, induce(look.decoys, "group"), strict=True):
        found = np.where(other.unique, other.confidence, 0.0).astype(np.float64)
        noise.append(found.reshape(len(block), -1))
        level.append(np.full(len(block), chance.group_match(*block.shape)))
    width = max(part.shape[1] for part in noise)
    return Margins(
        np.concatenate([block.confidence for block in induced]).astype(np.float64),
        np.concatenate([block.unique for block in induced]),
        np.concatenate([np.resize(part.T, (width, len(part))).T for part in noise]),
        np.concatenate(level),
    )
