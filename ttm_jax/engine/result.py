"""What a Test-Time Matching run returns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.result_table import pair_table
from ttm_jax.errors import InputError
from ttm_jax.matching.metric_names import METRICS, headline_in


@dataclass(frozen=True, eq=False)
class Record:
    """One iteration. Scores, and everything derived from them, are those at its start.

    For a dataset with mixed shapes, `scores`, `matching`, `margins` and `selected` are tuples of
    arrays, one per shape.
    """

    iteration: int
    """Counted from 1."""
    tau: float
    """The threshold."""
    scores: Any = field(repr=False)
    """`[group, image, text]`; `[image, text]` for a global matching."""
    matching: Any = field(repr=False)
    """The caption of each image, `[group, image]`; `[image]` for a global matching."""
    margins: Any = field(repr=False)
    """`[group]`; the similarities `[image]` for a global matching."""
    selected: Any = field(repr=False)
    """What was trained on, `[group]`; `[image]` for a global matching."""
    precision: float | None
    """Share of the selected matchings that are correct; None if unknown or none was selected."""
    loss: float | None
    """Loss of the last training step; None if nothing was selected."""


@dataclass(frozen=True, eq=False, repr=False)
class TTMResult:
    """The result of `run_ttm`: the adapted model, and what it makes of the dataset.

    For a dataset with mixed shapes, `scores` and `matchings` are tuples of arrays, one per shape.
    `run_ttm` has an example.
    """

    history: tuple[Record, ...] = field(repr=False)
    """One `Record` per iteration."""
    scores: Any = field(repr=False)
    """Of the adapted model: `[group, image, text]`; `[image, text]` for a global matching."""
    matchings: Any = field(repr=False)
    """Of the adapted model: the index of each image's caption, `[group, image]`; `[image]` for a
    global matching. -1 if there are fewer captions than images and the image gets none."""
    model: Any = field(repr=False)
    """The adapted model, of the same class as the original. Adapters are merged. None if
    `run_seeds` was told not to keep it."""
    metrics: dict[str, Any]
    """Of the adapted model, by name: `percent`, `count`, `of` and `chance`. Empty if the truth is
    unknown."""
    raw_metrics: dict[str, Any]
    """The same for the original model."""
    seed: int
    """The seed of the run."""
    run_dir: Path | None
    """The run folder, if there is one."""
    dataset: GroupedDataset | None = None
    """What the model was adapted to, with its groups."""
    config: TTMConfig = field(default_factory=TTMConfig)
    """The settings."""

    def table(self, folder: str | Path | None = None) -> list[dict[str, Any]]:
        """The answer: one row per image of each group.

        Args:
            folder: What the paths of images are shown relative to; None leaves them as they are.

        Returns:
            Dicts with `group`, `image`, `caption` (None if there are fewer captions than images),
            `confidence` (the caption's share among those of the group, 0 to 1), `runner_up` (the
            best other caption), `margin` (of the group; the similarity of a global matching),
            `unique`, `before` (the original model's caption) and `changed`; if the truth is known,
            also `truth` and `right`.
        """
        if self.dataset is None:
            raise InputError("this result has no dataset, so it has no table")
        return pair_table(
            self.dataset,
            self.scores,
            self.matchings,
            self.history[0].matching,
            self.config,
            None if folder is None else Path(folder),
        )

    def to_pandas(self, folder: str | Path | None = None) -> Any:
        """The rows of `table` as a pandas DataFrame.

        Args:
            folder: As in `table`.

        Returns:
            The DataFrame.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise InputError("to_pandas needs pandas: pip install pandas; or use table()") from None
        return pandas.DataFrame(self.table(folder))

    def __repr__(self) -> str:
        if not self.metrics:
            rates = "truth unknown"
        else:
            name = headline_in(self.metrics)
            old, new = self.raw_metrics[name]["percent"], self.metrics[name]["percent"]
            rates = f"{METRICS[name].label} {old:.2f} -> {new:.2f}"
        place = "" if self.run_dir is None else f", {str(self.run_dir)!r}"
        iterations = f"{len(self.history)} iteration{'s' * (len(self.history) != 1)}"
        return f"TTMResult({rates}, {iterations}, seed {self.seed}{place})"
