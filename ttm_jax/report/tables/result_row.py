"""The row of a result, as in the paper's tables: raw, SimpleMatch, TTM, gain, error reduction."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ttm_jax.data import world
from ttm_jax.engine.result import TTMResult
from ttm_jax.matching.mean_over_seeds import spread
from ttm_jax.matching.metric_names import headline
from ttm_jax.matching.rate_interval import error_reduction, relative_gain
from ttm_jax.plain_text import rich_lines, rich_text

CAPTION = "percent; TTM: mean ± sample standard deviation (n - 1) over the seeds"
_WIDE = 128


@dataclass(frozen=True)
class ResultRow:
    """Percentages. `raw` is GroupScore; `simple_match` is GroupMatch (global: the assignment's
    accuracy) of the same model; `ttm_*` is that of the adapted one, over the seeds."""

    variant: str
    shape: str
    model: str
    matching: str
    units: int
    chance_raw: float | None
    chance: float
    raw: float | None
    simple_match: float
    ttm_mean: float
    ttm_std: float | None
    ttm_values: tuple[float, ...]
    seeds: tuple[int, ...]

    @property
    def gain(self) -> float:
        """Over SimpleMatch; of a 1 x k group that is the raw score."""
        return self.ttm_mean - self.simple_match

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def result_row(
    variant: str, shape: str, model: str, matching: str, results: Sequence[TTMResult]
) -> ResultRow:
    """From the runs of all seeds; needs known truth."""
    before = results[0].raw_metrics
    name = headline(matching)
    final = spread([result.metrics[name]["percent"] for result in results])
    score = before.get("group_score")
    return ResultRow(
        variant=variant,
        shape=shape,
        model=model,
        matching=matching,
        units=before[name]["of"],
        chance_raw=None if score is None else score["chance"],
        chance=before[name]["chance"],
        raw=None if score is None else score["percent"],
        simple_match=before[name]["percent"],
        ttm_mean=final["mean"],
        ttm_std=final["std"],
        ttm_values=tuple(final["values"]),
        seeds=tuple(result.seed for result in results),
    )


def world_row(variant: str, model: str, matching: str, results: Sequence[TTMResult]) -> ResultRow:
    """The row of a variant of the procedural world."""
    images, texts = world.find_variant(variant).shape
    return result_row(variant, f"{images}x{texts}", model, matching, results)


HEADINGS = (
    "variant", "shape", "model", "chance", "raw", "SimpleMatch", "TTM", "gain", "error red.",
)  # fmt: skip


def cells(row: ResultRow) -> tuple[str, ...]:
    """What the table says of a row; chance is of GroupScore / of GroupMatch."""
    std = "" if row.ttm_std is None else f" ± {row.ttm_std:.2f}"
    chance = f"{row.chance:.1f}"
    if row.chance_raw is not None and abs(row.chance_raw - row.chance) > 0.05:
        chance = f"{row.chance_raw:.1f} / {chance}"
    relative = relative_gain(row.simple_match, row.ttm_mean)
    reduction = error_reduction(row.simple_match, row.ttm_mean)
    return (
        row.variant,
        row.shape if row.matching == "group" else f"{row.shape} global",
        row.model,
        chance,
        "-" if row.raw is None else f"{row.raw:.2f}",
        f"{row.simple_match:.2f}",
        f"{row.ttm_mean:.2f}{std}",
        f"{row.gain:+.1f} ({relative:+.1f} %)" if math.isfinite(relative) else f"{row.gain:+.1f}",
        f"{reduction:.1f} %" if math.isfinite(reduction) else "-",
    )


def markdown(rows: Sequence[ResultRow]) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    return "\n".join([*lines, "", f"{CAPTION[0].upper()}{CAPTION[1:]}."]) + "\n"


def print_rows(rows: Sequence[ResultRow], title: str) -> None:
    from rich.table import Table

    from ttm_jax.report.terminal import print_fitting, screen

    table = Table(title=title, caption=CAPTION)
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if index < 3 else "right")
    for row in rows:
        table.add_row(*map(rich_text, cells(row)))
    print_fitting(screen(_WIDE), table, lambda: _narrow(rows, title))


def _narrow(rows: Sequence[ResultRow], title: str) -> Any:
    """Two lines per row, for 80 columns."""
    from ttm_jax.report.terminal import narrow_table

    headings = ("variant\nmodel", "chance", "raw", "Simple\nMatch", "TTM", "gain", "error\nred.")
    table = narrow_table(title, headings)
    table.caption = CAPTION
    for row in rows:
        variant, shape, model, chance, raw, simple_match, ttm, gain, fewer = cells(row)
        table.add_row(
            rich_lines(f"{variant} {shape}", model),
            chance.replace(" / ", " /\n"),
            raw,
            simple_match,
            ttm.replace(" ±", "\n±"),
            gain.replace(" (", "\n("),
            fewer,
        )
    return table
