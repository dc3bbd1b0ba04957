"""Every setting of a Test-Time Matching run. Light to import: no jax here."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from ttm_jax.errors import InputError
from ttm_jax.trained_part import parse_train

Family = Literal["siglip", "clip"]
Matching = Literal["group", "global"]
TauUnit = Literal["logit", "probability", "fraction"]
Schedule = Literal["linear", "cosine", "constant", "ascending"]
Placement = Literal["replicated", "sharded"]
Precision = Literal["highest", "high", "default"]
Dtype = Literal["float32", "bfloat16"]
Prior = Literal["none", "subtract", "standardise"]

_GROWTH = 1.05  # how much larger a batch may get to avoid a tiny last one
_LARGEST_SEED = 2**32 - 1  # what JAX's random keys take on every machine
# Field, smallest and largest value that make sense.
_WHOLE = (
    ("iterations", 1, 10_000),
    ("epochs", 1, 1_000_000),
    ("batch_groups", 1, 10_000_000),
    ("lora_rank", 1, 65_536),
    ("keep_checkpoints", 0, 10_000),
)
_REAL = (
    ("beta1", 0.0, 0.9999999),
    ("beta2", 0.0, 0.9999999),
    ("eps", 1e-30, 1.0),
    ("weight_decay", 0.0, 100.0),
    ("lr_decay", 0.0, 1.0),
    ("min_lr_factor", 0.0, 1.0),
)


@dataclass(frozen=True)
class Memory:
    """How a training step is made to fit in memory. The results do not depend on it.

    Examples:
        >>> from ttm_jax import Memory, TTMConfig
        >>> TTMConfig(memory=Memory(remat="block", chunk=16)).memory
        Memory(remat='block', chunk=16)
    """

    remat: Literal["auto", "none", "dots", "block"] = "auto"
    """What the backward pass recomputes instead of keeping: nothing, everything but the results of
    dense layers, or whole blocks. "auto" picks the fastest option that fits in memory."""
    chunk: int = -1
    """Number of pairs whose activations are in memory at once: 0 for all pairs, -1 for "auto"."""


@dataclass(frozen=True)
class TTMConfig:
    """Settings of Algorithm 1 and its global variant. Defaults are the paper's unless noted.

    Use `dataclasses.replace` to change a setting of an existing config.

    Raises:
        InputError: A setting is out of range, or two settings contradict each other.

    Examples:
        >>> from dataclasses import replace
        >>> from ttm_jax import TTMConfig
        >>> config = TTMConfig(lr=2e-5, iterations=5)
        >>> replace(config, matching="global", tau_unit="fraction").first_coverage
        0.5
    """

    matching: Matching = "group"
    """Match within each group, or match all images and captions at once."""
    tau_1: float | None = None
    """First threshold; None chooses the one that selects the share `coverage`."""
    tau_T: float = 0.0
    """Last threshold."""
    tau_unit: TauUnit = "logit"
    """With "logit" or "probability", matchings whose margin is at least tau are selected (global:
    pairs whose similarity is). With "fraction", the top 1 - tau of them are."""
    schedule: Schedule = "linear"
    """How tau moves from `tau_1` to `tau_T`. "constant" and "ascending" are for comparison."""
    coverage: float | None = None
    """Share selected in the first iteration if `tau_1` is None; the default is 0.2 of the groups,
    or 0.5 of the pairs of a global matching."""
    first_precision: float | None = None
    """Choose `tau_1` so that this share of the first selection is right, as estimated from decoys
    (docs/without_labels.md); None chooses it by `coverage`."""
    prior: Prior = "none"
    """Remove from each score what its caption scores with other images: its mean, or its mean and
    its spread. Helps where groups have fewer images than captions (not in the paper)."""
    match_seconds: float | None = None
    """A global matching of very many pairs stops after this time with the best so far, and the log
    says how far it may be from the optimum; None: no limit, it is proved."""
    match_gap: float = 0.0
    """It also stops if the total is proved to be at most this share below the optimum."""
    oracle: bool = False
    """Select exactly the correct matchings: the paper's skyline, which uses the labels."""
    lr: float = 1e-5
    """Learning rate at the start of the first iteration."""
    iterations: int = 10
    """Number of rounds of matching, selecting and training."""
    epochs: int = 20
    """Passes over the selected groups per iteration."""
    batch_groups: int = 50
    """Groups per batch. A global matching uses twice as many pairs."""
    grow_batch: bool = True
    """Let the batch grow by up to 5 % if that avoids a tiny last batch (102 groups: 51)."""
    augment: bool = False
    """Resize images by 1.1 and crop them at random during training."""
    keep_opt_state: bool = False
    """Keep the optimizer's moments from one iteration to the next."""
    shuffle: bool = True
    """Shuffle the selected groups in every epoch."""
    lr_decay: float = 0.95
    """Factor on the learning rate from one iteration to the next."""
    min_lr_factor: float = 0.1
    """Where the cosine of an iteration ends, relative to its start (not in the paper)."""
    beta1: float = 0.9
    """AdamW's decay of the first moment."""
    beta2: float = 0.999
    """AdamW's decay of the second moment."""
    eps: float = 1e-8
    """AdamW's epsilon."""
    weight_decay: float = 0.05
    """AdamW's weight decay, on every parameter."""
    train: str = "all"
    """What is trained: `"all"`; one tower (`"image"`, `"text"`); the `"heads"`; the last N blocks
    with the heads (`"last:2"`); low-rank adapters (`"lora"`); or combined, as in `"text:last:2"`
    and `"lora:last:4"`. What is frozen is computed once per run."""
    lora_rank: int = 8
    """Rank of the adapters with `train="lora..."`."""
    precision: Precision = "highest"
    """Precision of float32 matrix products."""
    dtype: Dtype = "float32"
    """Dtype of the computation; parameters stay float32."""
    train_precision: Precision | None = None
    """Precision in training steps only; None is that of `precision`. Scores and thresholds keep
    `precision`."""
    train_dtype: Dtype | None = None
    """Dtype in training steps only; None is that of `dtype`."""
    memory: Memory = field(default_factory=Memory)
    """How a training step is made to fit in memory."""
    placement: Placement = "replicated"
    """Keep parameters and optimizer state on every device, or split them over the devices."""
    keep_checkpoints: int = 3
    """How many of the latest checkpoints to keep on disk; 0 keeps all. The one that looks best
    without labels is kept besides."""

    @property
    def training_compute(self) -> tuple[Dtype, Precision]:
        """Dtype and precision of training steps."""
        return self.train_dtype or self.dtype, self.train_precision or self.precision

    def __post_init__(self) -> None:
        if self.matching == "global" and self.tau_unit == "probability":
            raise InputError("global matching takes tau_unit logit or fraction, not probability")
        for name, low, high in _WHOLE:
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(f"{name} is {value}; expected {low} to {high:,}")
        for name, least, most in _REAL:
            value = getattr(self, name)
            if not least <= value <= most:  # also refuses nan
                raise InputError(f"{name} is {value}; expected {least} to {most}")
        parse_train(self.train)
        if not 0 < self.lr < math.inf:
            raise InputError(f"lr is {self.lr}; expected a positive number")
        for name in ("tau_1", "tau_T"):
            value = getattr(self, name)
            if value is not None and (value < 0 or not math.isfinite(value)):
                raise InputError(f"{name} is {value}; expected 0 or more")
        if self.tau_unit == "fraction" and not 0 <= max(self.tau_1 or 0, self.tau_T) <= 1:
            raise InputError("with tau_unit fraction, tau_1 and tau_T lie between 0 and 1")
        if self.coverage is not None and not 0 < self.coverage <= 1:
            raise InputError(f"coverage is {self.coverage}; expected more than 0, at most 1")
        if self.match_seconds is not None and not self.match_seconds > 0:
            raise InputError(
                f"match_seconds is {self.match_seconds}; expected more than 0, or None"
            )
        if not 0 <= self.match_gap < 1:
            raise InputError(f"match_gap is {self.match_gap}; expected 0 or more, and less than 1")
        if self.prior != "none" and self.matching == "global":
            raise InputError("removing the captions' prior needs groups, not a global matching")
        if self.first_precision is not None:
            if not 0 < self.first_precision < 1:
                raise InputError(
                    f"first_precision is {self.first_precision}; expected more than 0, less than 1"
                )
            if self.tau_1 is not None or self.coverage is not None:
                raise InputError("give one of tau_1, coverage and first_precision, not several")
            if self.matching == "global":
                raise InputError("first_precision needs groups, not a global matching")
            if self.tau_unit == "fraction":
                raise InputError("first_precision needs tau_unit logit or probability")

    @property
    def first_coverage(self) -> float:
        """Share selected in the first iteration; the paper's are 15-30 % of the groups, or about
        50 % of the pairs of a global matching."""
        if self.coverage is not None:
            return self.coverage
        return 0.2 if self.matching == "group" else 0.5

    def batch_units(self, units: int) -> int:
        """Groups (or pairs) per batch for a dataset with this many of them.

        The paper increases the batch size slightly "when the total number of groups is just above a
        multiple" of it. It does not define "just above"; here, it is up to 5 %.

        Args:
            units: Groups, or images of a global matching, in the dataset.

        Returns:
            The batch size: `batch_groups` (global: twice that), possibly grown, and at most
            `units`.
        """
        batch = self.batch_groups * (2 if self.matching == "global" else 1)
        if self.grow_batch and units > batch:
            grown = math.ceil(units / (units // batch))
            batch = grown if grown <= batch * _GROWTH else batch
        return min(batch, units)

    def with_iterations(self, iterations: int | None) -> "TTMConfig":
        """Change the number of iterations.

        Args:
            iterations: The new number; None keeps the old one.

        Returns:
            A new config.
        """
        return self if iterations is None else replace(self, iterations=iterations)


def check_seeds(*seeds: int) -> None:
    """Refuse seeds that no random generator takes, and the same seed twice."""
    for seed in seeds:
        if not 0 <= seed <= _LARGEST_SEED:
            raise InputError(f"seed {seed}: expected a whole number from 0 to {_LARGEST_SEED}")
    if not seeds or len(set(seeds)) < len(seeds):
        given = " ".join(map(str, seeds)) or "none"
        raise InputError(f"seeds: {given}; expected one or more, each a different one")
