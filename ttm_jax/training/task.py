"""What the Test-Time Matching loop asks of a model on a dataset, and nothing more.

`ContrastiveTask` (CLIP, SigLIP) and the VQAScore task are the two kinds; the loop, the trainer,
checkpoints and reports know only this page.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, PRNGKeyArray

from ttm_jax.matching.caption_prior import CaptionTotals
from ttm_jax.training.trainable import Flat, Split

Scores = tuple[Any, ...]
"""`scores[group, image, text]` of every block of a dataset (one block per shape), on the host. Of a
global matching of very many pairs, a task gives `Embeddings`, and the engine keeps `PairScores`."""


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a dataset, and of further blocks over the same images and captions."""

    scores: Scores
    further: Scores = ()
    totals: CaptionTotals | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Examples:
    """Training pairs of every unit (a group, or one pair of a global assignment).

    Indices point into the pools of the dataset; `label` is True for a matched pair. Units with
    fewer pairs than others are padded, with `mask` False. A pytree, so the shapes are comments.
    """

    image: Any  # [unit, pair], int32
    text: Any  # [unit, pair], int32
    label: Any  # [unit, pair], bool
    mask: Any  # [unit, pair], bool


@runtime_checkable
class Objective(Protocol):
    """Hashable: equal objectives are compiled once, however many seeds and runs use them."""

    def value_and_grad(
        self, trained: Flat, frozen: Flat, data: Any, batch: Examples, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Flat]:
        """Loss of a batch of units and its gradient; pure, called inside jit."""


@runtime_checkable
class Task(Protocol):
    """A model bound to a dataset."""

    @property
    def mesh(self) -> Mesh:
        """The devices."""

    @property
    def initial(self) -> Split:
        """The parameters to start from."""

    @property
    def data(self) -> Any:
        """Device-resident pools, an argument of the jitted functions."""

    @property
    def inputs(self) -> Any:
        """The part of `data` that was read from the dataset; part of a run's identity."""

    @property
    def objective(self) -> Objective:
        """The loss to train with."""

    @property
    def scoring(self) -> dict[str, Any]:
        """Settings that change what a score is; part of a run's identity."""

    @property
    def step_bytes(self) -> int:
        """Memory that a training step is estimated to take on each device."""

    @property
    def step_flops(self) -> float:
        """Operations of a training step with a full batch, from the sizes of the model."""

    @property
    def embeds(self) -> bool:
        """Whether further pairs cost next to nothing, because each item is encoded by itself."""

    def score(self, trained: Flat) -> Scores:
        """The scores of all groups under these parameters."""

    def score_further(self, trained: Flat, blocks: tuple[Any, ...], *, totals: bool) -> Scored:
        """The same with the scores of further blocks and, if it embeds, totals of all captions."""

    def examples(self, matchings: tuple[np.ndarray, ...]) -> Examples:
        """What to train on if every unit's matching were selected; one matching a block."""

    def adapted(self, trained: Flat) -> Any:
        """The user's model with these parameters in it."""
