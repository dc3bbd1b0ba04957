"""Every setting of a Test-Time Matching run. Light to import: no jax here."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from ttm_jax.errors import InputError

Matching = Literal["group", "global"]
TauUnit = Literal["logit", "probability", "fraction"]
Schedule = Literal["linear", "cosine", "constant", "ascending"]
Train = Literal["all", "image", "text", "heads", "lora"]
Placement = Literal["replicated", "sharded"]

_GROWTH = 1.05  # how much larger a batch may get to avoid a tiny last one


@dataclass(frozen=True)
class Memory:
    """How a training step is fitted into memory; the numbers it gives do not change.

    remat: what the backward pass computes again instead of keeping ("auto" looks at the memory
        there is). chunk: pairs whose activations live at once, 0 for all of them, -1 for "auto".
    """

    remat: Literal["auto", "none", "dots", "block"] = "auto"
    chunk: int = -1


@dataclass(frozen=True)
class TTMConfig:
    """Algorithm 1 and its global variant. Defaults are the paper's, or said to be ours."""

    matching: Matching = "group"
    """Match within each group, or all images and captions at once."""
    tau_1: float | None = None
    """First threshold; None: the one that selects the share `coverage` at first."""
    tau_T: float = 0.0
    """Last threshold."""
    tau_unit: TauUnit = "logit"
    """logit or probability: a margin (or, global, a similarity) of at least tau is selected.
    fraction: the top 1 - tau of the units are."""
    schedule: Schedule = "linear"
    coverage: float | None = None
    """Share selected at first when tau_1 is None (default 0.2 for groups, 0.5 global)."""
    oracle: bool = False
    """Select a matching if and only if it is right: a skyline that uses the labels."""
    lr: float = 1e-5
    iterations: int = 10
    epochs: int = 20
    batch_groups: int = 50
    """Groups in a batch; global matching takes twice as many pairs."""
    grow_batch: bool = True
    """Let the batch grow by up to 5 % when that avoids a tiny last batch (102 groups: 51)."""
    augment: bool = False
    """Resize by 1.1 and crop at random while training."""
    keep_opt_state: bool = False
    """Keep the optimizer's moments from one iteration to the next."""
    shuffle: bool = True
    lr_decay: float = 0.95
    """Factor on the learning rate from one iteration to the next."""
    min_lr_factor: float = 0.1
    """Where the cosine of an iteration ends, as a share of where it starts (not in the paper)."""
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.05
    """On every parameter."""
    train: Train = "all"
    """What is trained: everything, one tower, the heads, or a low-rank adapter."""
    lora_rank: int = 8
    precision: Literal["highest", "high", "default"] = "highest"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the computation; parameters stay float32."""
    memory: Memory = field(default_factory=Memory)
    placement: Placement = "replicated"
    """Parameters and optimizer state on every device, or split over the devices."""
    keep_checkpoints: int = 3
    """How many of the latest checkpoints stay on disk; 0 keeps all."""

    def __post_init__(self) -> None:
        if self.matching == "global" and self.tau_unit == "probability":
            raise InputError("global matching takes tau_unit logit or fraction, not probability")
        for name, low in (("iterations", 1), ("epochs", 1), ("batch_groups", 1), ("lora_rank", 1)):
            if getattr(self, name) < low:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least {low}")
        if not self.lr > 0 or not math.isfinite(self.lr):
            raise InputError(f"lr is {self.lr}; expected a positive number")
        for name in ("tau_1", "tau_T"):
            value = getattr(self, name)
            if value is not None and (value < 0 or not math.isfinite(value)):
                raise InputError(f"{name} is {value}; expected 0 or more")
        if self.tau_unit == "fraction" and not 0 <= max(self.tau_1 or 0, self.tau_T) <= 1:
            raise InputError("with tau_unit fraction, tau_1 and tau_T lie between 0 and 1")
        if self.coverage is not None and not 0 < self.coverage <= 1:
            raise InputError(f"coverage is {self.coverage}; expected more than 0, at most 1")

    @property
    def first_coverage(self) -> float:
        """The paper selects 15-30 % of the groups at first, about 50 % of the pairs."""
        if self.coverage is not None:
            return self.coverage
        return 0.2 if self.matching == "group" else 0.5

    def batch_units(self, units: int) -> int:
        """Groups (or pairs) in a batch for a dataset of this many.

        The paper raises the batch slightly "when the total number of groups is just above a
        multiple"; just above is not defined there: here, up to 5 %.
        """
        batch = self.batch_groups * (2 if self.matching == "global" else 1)
        if self.grow_batch and units > batch:
            grown = math.ceil(units / (units // batch))
            batch = grown if grown <= batch * _GROWTH else batch
        return min(batch, units)

    def with_iterations(self, iterations: int | None) -> "TTMConfig":
        return self if iterations is None else replace(self, iterations=iterations)
