"""Does the model know anything about this data, and how much? Answered without labels.

    found = diagnose(model, dataset)
    print(found.sentence)

The decoys of `matching/decoys.py` are scored together with the groups, from the same embeddings.
"""

from dataclasses import dataclass, replace

import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.engine.model import Model
from ttm_jax.engine.pseudo_labels import first_threshold, induce, right_units
from ttm_jax.engine.raw_scores import raw_scores
from ttm_jax.errors import InputError
from ttm_jax.matching import chance
from ttm_jax.matching.decoys import (
    DRAWS,
    Estimate,
    Margins,
    draw_partners,
    estimate_accuracy,
    estimate_precision,
    knows_nothing,
    most_draws,
)

LEAST_GROUPS = 20  # with fewer, neither the test nor the interval says much
_SIGNIFICANT = 0.05


@dataclass(frozen=True, eq=False)
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
    true_accuracy: float | None = None
    """The actual share, if the truth is known; not used for anything else."""
    true_precision: float | None = None
    """The same for the selected groups."""

    @property
    def go_ahead(self) -> bool:
        """Whether Test-Time Matching has something to amplify."""
        chance_level = float(self.margins.chance.mean())
        return self.p_value < _SIGNIFICANT and self.precision.low > chance_level

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
        InputError: The matching is global, or there are fewer than 20 groups.

    Examples:
        >>> import ttm_jax
        >>> from ttm_jax.data import world
        >>> model = ttm_jax.load_model("small-siglip")
        >>> found = ttm_jax.diagnose(model, world.make("color_swap", groups=40))
        >>> found.go_ahead
        True
    """
    config = config or TTMConfig()
    if config.matching == "global":
        raise InputError("a diagnosis needs groups; without groups there are no decoys")
    if len(dataset) < LEAST_GROUPS:
        raise InputError(
            f"{dataset.name} has {len(dataset)} groups; a diagnosis needs {LEAST_GROUPS} or more"
        )
    extra = decoy_blocks(dataset, draws, seed)
    whole = replace(dataset.without_truth(), blocks=(*dataset.blocks, *extra))
    scores = raw_scores(model, whole, config=config)
    return judge(dataset, scores[: len(dataset.blocks)], scores[len(dataset.blocks) :], config)


def judge(
    dataset: GroupedDataset,
    scores: tuple[np.ndarray, ...],
    decoys: tuple[np.ndarray, ...],
    config: TTMConfig,
) -> Diagnosis:
    """The diagnosis from the scores of all blocks and of their decoys (`decoy_blocks`)."""
    induced = induce(scores, "group")
    margins = join_margins(dataset, induced_margins(induced), decoys)
    tau = config.tau_1
    if tau is None:
        tau = first_threshold(induced, config.tau_unit, config.first_coverage)
    selected = (margins.groups >= tau) & margins.usable
    right = right_units(dataset.blocks, induced, "group") if dataset.has_truth else None
    correct = None if right is None else np.concatenate(right)
    return Diagnosis(
        margins=margins,
        p_value=knows_nothing(margins),
        accuracy=estimate_accuracy(margins),
        tau=tau,
        selected=int(selected.sum()),
        precision=estimate_precision(margins, tau),
        true_accuracy=None if correct is None else float(correct.mean()),
        true_precision=None
        if correct is None or not selected.any()
        else float(correct[selected].mean()),
    )


def decoy_blocks(dataset: GroupedDataset, draws: int = DRAWS, seed: int = 0) -> tuple[Block, ...]:
    """For each block, one with the decoys of its groups: those of the first group come first."""
    blocks = []
    for block in dataset.blocks:
        texts = [
            frozenset(dataset.caption_text(int(index)) for index in row) for row in block.text_index
        ]
        pictures = [frozenset(row.tolist()) for row in block.image_index]
        count = most_draws(texts, draws)
        if count < 1:
            raise InputError(f"{dataset.name}: decoys need groups with different captions")
        partners = draw_partners(texts, pictures, count, seed)
        blocks.append(
            Block(
                ids=tuple(f"{name} (decoy {i})" for name in block.ids for i in range(count)),
                image_index=np.repeat(block.image_index, count, axis=0),
                text_index=block.text_index[partners.reshape(-1)],
            )
        )
    return tuple(blocks)


def induced_margins(induced: tuple) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(block.confidence.astype(np.float64), block.unique) for block in induced]


def join_margins(
    dataset: GroupedDataset,
    found: list[tuple[np.ndarray, np.ndarray]],
    decoys: tuple[np.ndarray, ...],
) -> Margins:
    """All blocks together; a block with fewer decoys per group than another repeats its own."""
    parts = []
    for block, (margin, usable), scores in zip(dataset.blocks, found, decoys, strict=True):
        (other,) = induce((scores,), "group")
        noise = np.where(other.unique, other.confidence, 0.0).reshape(len(block), -1)
        level = np.full(len(block), chance.group_match(*block.shape))
        parts.append((margin, usable, noise, level))
    width = max(noise.shape[1] for _, _, noise, _ in parts)
    return Margins(
        np.concatenate([margin for margin, *_ in parts]),
        np.concatenate([usable for _, usable, *_ in parts]),
        np.concatenate([np.resize(n.T, (width, len(n))).T for _, _, n, _ in parts]).astype(
            np.float64
        ),
        np.concatenate([level for *_, level in parts]),
    )
