"""GroupMatch after training parts of a model, one row per variant."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ttm_jax.engine.result import TTMResult
from ttm_jax.matching.mean_over_seeds import spread


@dataclass(frozen=True)
class PartsRow:
    """Percent of the groups matched right, before training and by trained part (mean, std)."""

    variant: str
    before: float
    after: dict[str, tuple[float, float | None]]

    @classmethod
    def of(cls, variant: str, results: Mapping[str, Sequence[TTMResult]]) -> "PartsRow":
        """`results` has the seeds of every part."""
        after, before = {}, 0.0
        for part, runs in results.items():
            found = spread([run.metrics["group_match"]["percent"] for run in runs])
            after[part] = found["mean"], found["std"]
            before = runs[0].raw_metrics["group_match"]["percent"]
        return cls(variant, before, after)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def parts_table(rows: Sequence[PartsRow]) -> str:
    """As Markdown."""
    parts = list(rows[0].after)
    lines = [
        f"| variant | before | {' | '.join(parts)} |",
        "| --- " * (len(parts) + 2) + "|",
    ]
    for row in rows:
        cells = [f"{row.before:.1f}"]
        for part in parts:
            mean, std = row.after[part]
            cells.append(f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}")
        lines.append(f"| {row.variant} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
