"""How far SimpleMatch's overfitting turned GroupMatch into GroupScore (paper, Section 3.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttm_jax.data.paper import PaperResult
from ttm_jax.report.tables.beside_paper import show
from ttm_jax.report.tables.verdict import Number, Verdict, judge_raw

_HEAD = (
    "dataset", "model", "seed", "GroupScore before", "paper", "GroupMatch before", "paper",
    "GroupScore, overfitted", "agreement", "epochs", "transferred",
)  # fmt: skip


@dataclass(frozen=True)
class OverfitRow:
    """One overfitting. `agreement` is the share of the groups, in percent, whose GroupScore follows
    the first matching; at 100 the overfitted GroupScore is the GroupMatch of the start."""

    dataset: str
    model: str
    seed: int
    before: tuple[Verdict, ...]
    """GroupScore and GroupMatch of the untrained model, beside the paper's."""
    overfitted: Number
    off: int
    """Groups that GroupScore counts now, minus those that GroupMatch counted at the start."""
    agreement: float
    epochs: int
    note: str = ""

    @classmethod
    def of(
        cls,
        dataset: str,
        model: str,
        seed: int,
        found: Mapping[str, Any],
        paper: PaperResult | None,
        note: str = "",
    ) -> "OverfitRow":
        """From the content of simple_match.json."""
        rate = found["metrics"]["group_score"]
        return cls(
            dataset,
            model,
            seed,
            judge_raw(found["raw_metrics"], paper),
            Number(rate["percent"], rate["count"], rate["of"]),
            rate["count"] - found["raw_metrics"]["group_match"]["count"],
            100 * found["agreement"],
            found["epochs"],
            note,
        )

    @property
    def transferred(self) -> str:
        """Whether GroupScore has become what GroupMatch was."""
        groups = "group" if abs(self.off) == 1 else "groups"
        return "yes" if self.off == 0 else f"off by {self.off:+d} {groups}"


def markdown(rows: Sequence[OverfitRow]) -> str:
    lines = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * 3}{'---:|' * 7}---|"]
    for row in rows:
        cells = [row.dataset, row.model, str(row.seed)]
        for name in ("raw", "simple_match"):
            verdict = next((v for v in row.before if v.name == name), row.before[0])
            cells += [show(verdict.here), show(verdict.paper)]
        cells += [show(row.overfitted), f"{row.agreement:.1f} %", str(row.epochs), row.transferred]
        lines.append(f"| {' | '.join(cells)} |")
    notes = dict.fromkeys(f"not compared with the paper: {row.note}" for row in rows if row.note)
    return "\n".join([*lines, *(f"\n{note}" for note in notes)]) + "\n"
