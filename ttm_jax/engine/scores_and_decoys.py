"""One look at a model: the scores of all groups, and of their decoys, without the captions' prior.

Where a model embeds images and captions (CLIP, SigLIP), decoys and prior cost next to nothing, so
every iteration has them. A generative model answers each pair by itself; it gets decoys only where
they are asked for.
"""

from dataclasses import dataclass

import numpy as np

from ttm_jax.config import Prior, TTMConfig
from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.matching.caption_prior import remove_prior
from ttm_jax.matching.decoys import DRAWS, draw_partners
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.training.task import Scored, Scores, Task
from ttm_jax.training.trainable import Flat

LEAST_GROUPS = 20  # with fewer, neither the test nor the interval of a diagnosis says much


@dataclass(frozen=True, eq=False)
class Look:
    """What a model makes of a dataset."""

    scores: Scores
    """What is matched: without the captions' prior, if the settings remove it."""
    plain: Scores
    """As the model gives them; the same as `scores` if no prior is removed."""
    decoys: Scores | None = None
    """Of each block the decoys, treated like `scores`; None if there are none."""
    embeddings: Embeddings | None = None
    """What `scores` was matched from, if there are too many pairs for a matrix."""


class Looker:
    """Scores a dataset together with its decoys."""

    def __init__(
        self, task: Task, dataset: GroupedDataset, config: TTMConfig, decoys: tuple[Block, ...]
    ) -> None:
        if config.prior != "none" and not task.embeds:
            raise InputError(
                "removing the captions' prior needs a model with embeddings (CLIP, SigLIP); leave "
                'prior at "none"'
            )
        self.task, self.dataset, self.decoys, self.prior = task, dataset, decoys, config.prior

    def look(self, trained: Flat) -> Look:
        totals = self.prior != "none"
        found = self.task.score_further(trained, self.decoys, totals=totals)
        return self.view(found, self.prior)

    def view(self, found: Scored, prior: Prior) -> Look:
        """The same scores with another treatment of the prior; it needs their totals."""
        decoys = self._without(found, found.further, self.decoys, prior) if self.decoys else None
        return Look(
            self._without(found, found.scores, self.dataset.blocks, prior), found.scores, decoys
        )

    def _without(
        self, found: Scored, scores: Scores, blocks: tuple[Block, ...], prior: Prior
    ) -> Scores:
        if prior == "none":
            return scores
        assert found.totals is not None
        return tuple(
            remove_prior(values, block.image_index, block.text_index, found.totals, prior)
            for values, block in zip(scores, blocks, strict=True)
        )


def usual_decoys(task: Task, dataset: GroupedDataset, config: TTMConfig) -> tuple[Block, ...]:
    """The decoys that a run watches; none where they cost much, or where they say little."""
    wanted = config.first_precision is not None
    if wanted and not task.embeds:
        raise InputError("first_precision needs a model with embeddings (CLIP, SigLIP)")
    if wanted and len(dataset) < LEAST_GROUPS:
        raise InputError(
            f"first_precision needs {LEAST_GROUPS} groups or more; {dataset.name} has "
            f"{len(dataset)}"
        )
    if config.matching == "global" or not task.embeds or len(dataset) < LEAST_GROUPS:
        return ()
    try:
        return decoy_blocks(dataset)
    except InputError:
        if wanted:
            raise
        return ()


def decoy_blocks(dataset: GroupedDataset, draws: int = DRAWS, seed: int = 0) -> tuple[Block, ...]:
    """For each block, one with the decoys of its groups: those of the first group come first.

    A decoy keeps the captions and the truth of its group, and has the images of another.
    """
    blocks = []
    for block in dataset.blocks:
        texts = [
            frozenset(dataset.caption_text(int(index)) for index in row) for row in block.text_index
        ]
        pictures = [frozenset(row.tolist()) for row in block.image_index]
        partners = draw_partners(block.ids, texts, pictures, draws, seed)
        count = partners.shape[1]
        blocks.append(
            Block(
                ids=tuple(f"{name} (decoy {i})" for name in block.ids for i in range(count)),
                image_index=block.image_index[partners.reshape(-1)],
                text_index=np.repeat(block.text_index, count, axis=0),
                truth=None if block.truth is None else np.repeat(block.truth, count, axis=0),
            )
        )
    return tuple(blocks)
