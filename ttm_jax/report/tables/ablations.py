"""One line per variant: schedules, oracle, and how far an overfitted model's GroupScore got."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ttm_jax.engine.simple_match import SimpleMatchResult
from ttm_jax.report.tables.result_row import ResultRow

_HEAD = (
    "variant", "model", "GroupMatch before", "linear", "cosine", "constant", "ascending",
    "oracle", "GroupScore, overfitted", "agreement", "epochs",
)  # fmt: skip


@dataclass(frozen=True)
class SmallAblation:
    """Percentages; `ways` has the final GroupMatch of each way, mean and sample deviation."""

    variant: str
    model: str
    before: float
    ways: dict[str, tuple[float, float | None]]
    overfitted: float
    agreement: float
    epochs: int

    @classmethod
    def of(cls, rows: Mapping[str, ResultRow], overfit: SimpleMatchResult) -> "SmallAblation":
        first = next(iter(rows.values()))
        return cls(
            first.variant,
            first.model,
            first.simple_match,
            {way: (row.ttm_mean, row.ttm_std) for way, row in rows.items()},
            overfit.metrics["group_score"]["percent"],
            100 * overfit.agreement,
            overfit.epochs,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ablation_table(rows: Sequence[SmallAblation]) -> str:
    """Markdown."""
    lines = [" | ".join(_HEAD), " | ".join("---" for _ in _HEAD)]
    for row in rows:
        cells = [row.variant, row.model, f"{row.before:.2f}"]
        cells += [_number(*row.ways[way]) for way in _HEAD[3:8]]
        cells += [f"{row.overfitted:.2f}", f"{row.agreement:.1f} %", str(row.epochs)]
        lines.append(" | ".join(cells))
    caption = "Percent. ±: sample standard deviation (n - 1) over the seeds."
    return "".join(f"| {line} |\n" for line in lines) + f"\n{caption}\n"


def _number(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"
