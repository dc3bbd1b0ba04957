"""Rows in the paper's layout: raw, SimpleMatch, TTM, delta, relative gain, error reduction.

Every row has a line with the paper's numbers and one with those measured here.
"""

import math
from collections.abc import Sequence
from typing import Literal

from ttm_jax.report.tables.verdict import Comparison, Gain, Number

HEADINGS = (
    "dataset", "model", "", "raw", "SimpleMatch", "TTM", "Δ", "relative gain", "error reduction",
)  # fmt: skip
_SIDES: tuple[tuple[Literal["paper", "here"], str], ...] = (("paper", "paper"), ("here", "here"))


def name_of(row: Comparison) -> str:
    return f"{row.dataset} ({row.label})" if row.label else row.dataset


def layout_lines(rows: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """Cells of every line, two lines per row; the paper's is left out where it has no number."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        first = (name_of(row), row.model)
        for side, title in _SIDES:
            numbers = {verdict.name: getattr(verdict, side) for verdict in row.verdicts}
            if side == "paper" and not any(numbers.values()):
                continue
            if side == "here" and not any(numbers.values()):
                lines.append((*first, "not run", *("-",) * 6))
                continue
            shown = (_number(numbers.get(name)) for name in ("raw", "simple_match", "ttm"))
            lines.append((*first, title, *shown, *gain_cells(row.gain(side))))
            first = ("", "")
    return lines


def gain_cells(gain: Gain | None) -> tuple[str, str, str]:
    """+8.0, +9.8 %, 43.0 %; one decimal, as in the paper."""
    if gain is None:
        return "-", "-", "-"
    relative = f"{gain.relative:+.1f} %" if math.isfinite(gain.relative) else "-"
    reduction = f"{gain.error_reduction:.1f} %" if math.isfinite(gain.error_reduction) else "-"
    return f"{gain.points:+.1f}", relative, reduction


def _number(number: Number | None) -> str:
    if number is None:
        return "-"
    spread = "" if number.std is None else f" ± {number.std:.2f}"
    return f"{number.percent:.2f}{spread}"
