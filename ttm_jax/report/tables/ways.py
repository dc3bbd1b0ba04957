"""GroupMatch of the small models after training in several ways: one row per variant and model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ttm_jax.engine.result import TTMResult
from ttm_jax.matching.mean_over_seeds import spread


@dataclass(frozen=True)
class WaysRow:
    """Percent of the groups matched right, before training and after each way (mean, std)."""

    variant: str
    model: str
    before: float
    after: dict[str, tuple[float, float | None]]

    @classmethod
    def of(cls, variant: str, model: str, results: Mapping[str, Sequence[TTMResult]]) -> "WaysRow":
        """`results` has the seeds of every way. Before is that of the first way."""
        after = {}
        for way, runs in results.items():
            found = spread([run.metrics["group_match"]["percent"] for run in runs])
            after[way] = found["mean"], found["std"]
        first = next(iter(results.values()))[0]
        return cls(variant, model, first.raw_metrics["group_match"]["percent"], after)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ways_table(rows: Sequence[WaysRow]) -> str:
    """As Markdown."""
    ways = list(rows[0].after)
    heads = ("variant", "model", "before", *ways)
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for row in rows:
        cells = [row.variant, row.model, f"{row.before:.1f}"]
        for way in ways:
            mean, std = row.after[way]
            cells.append(f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
