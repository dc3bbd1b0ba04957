"""Estimates without labels beside the truth: two tables and the counts that sum them up."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from ttm_jax.engine.diagnosis import Diagnosis
from ttm_jax.engine.result import TTMResult
from ttm_jax.matching.mean_over_seeds import spread
from ttm_jax.runs.folder import RunFolder

_ESTIMATES = (
    "variant", "model", "p", "precision: estimate", "true", "accuracy: estimate", "true",
    "after TTM: estimate", "true", "gain", "diagnosis",
)  # fmt: skip
_PRIOR = (
    "variant", "model", "before: plain", "subtract", "TTM: plain", "subtract",
    "grounded gain: before", "TTM plain", "TTM subtract",
)  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """Percentages."""

    value: float
    low: float
    high: float
    true: float

    @classmethod
    def of(cls, found: Mapping[str, float], true: float) -> "Interval":
        return cls(100 * found["value"], 100 * found["low"], 100 * found["high"], true)

    @property
    def covers(self) -> bool:
        return self.low <= self.true <= self.high

    @property
    def text(self) -> str:
        return f"{self.value:.1f} ({self.low:.0f}-{self.high:.0f})"


@dataclass(frozen=True)
class Way:
    """Before and after Test-Time Matching with one treatment of the prior; percentages."""

    before: float
    after: tuple[float, ...]
    grounded_before: float
    grounded_after: float
    alarms: int
    """In how many seeds a run said that it was getting worse."""


@dataclass(frozen=True)
class WithoutLabels:
    """One model on one variant. `after` is the estimate of the first seed."""

    variant: str
    model: str
    p_value: float
    precision: Interval
    accuracy: Interval
    after: Interval
    go_ahead: bool
    go_ahead_without_prior: bool | None
    ways: dict[str, Way]

    @classmethod
    def of(
        cls,
        variant: str,
        model: str,
        found: Diagnosis,
        results: Mapping[str, Sequence[TTMResult]],
    ) -> "WithoutLabels":
        assert found.true_precision is not None  # the world knows its truth
        assert found.true_accuracy is not None
        other = found.with_prior_removed
        first = results["none"][0]
        last = _rows(first)[-1]
        return cls(
            variant,
            model,
            found.p_value,
            Interval.of(vars(found.precision), 100 * found.true_precision),
            Interval.of(vars(found.accuracy), 100 * found.true_accuracy),
            Interval.of(last["estimate"]["accuracy"], first.metrics["group_match"]["percent"]),
            found.go_ahead,
            None if other is None else other.go_ahead,
            {way: _way(runs) for way, runs in results.items()},
        )

    @property
    def gain(self) -> float:
        plain = self.ways["none"]
        return fmean(plain.after) - plain.before

    @property
    def gains(self) -> bool:
        """By more than two standard errors of the mean over the seeds."""
        after = self.ways["none"].after
        deviation = spread(after)["std"] or 0.0
        return self.gain > 2 * deviation / len(after) ** 0.5

    @property
    def verdict(self) -> str:
        if self.go_ahead:
            return "go ahead"
        return "go ahead without prior" if self.go_ahead_without_prior else "no evidence"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "gain": self.gain, "gains": self.gains, "verdict": self.verdict}


def tables(rows: Sequence[WithoutLabels]) -> str:
    """Markdown."""
    parts = [_table(_ESTIMATES, [_estimates(row) for row in rows]), *_counts(rows)]
    with_prior = [row for row in rows if "subtract" in row.ways]
    if with_prior:
        parts.append(_table(_PRIOR, [_prior(row) for row in with_prior]))
    return "\n".join(parts)


def _estimates(row: WithoutLabels) -> list[str]:
    return [
        row.variant,
        row.model,
        f"{row.p_value:.1g}",
        row.precision.text,
        f"{row.precision.true:.1f}",
        row.accuracy.text,
        f"{row.accuracy.true:.1f}",
        row.after.text,
        f"{row.after.true:.1f}",
        f"{row.gain:+.1f}" + ("" if row.gains else " (no)"),
        row.verdict,
    ]


def _prior(row: WithoutLabels) -> list[str]:
    plain, removed = row.ways["none"], row.ways["subtract"]
    return [
        row.variant,
        row.model,
        f"{plain.before:.1f}",
        f"{removed.before:.1f}",
        _mean(plain.after),
        _mean(removed.after),
        f"{plain.grounded_before:+.1f}",
        f"{plain.grounded_after:+.1f}",
        f"{removed.grounded_after:+.1f}",
    ]


def _counts(rows: Sequence[WithoutLabels]) -> list[str]:
    """How often the estimates and verdicts are right."""
    lines = []
    for verdict in ("go ahead", "go ahead without prior", "no evidence"):
        some = [row for row in rows if row.verdict == verdict]
        lines.append(
            f"- {verdict}: {len(some)} rows; {sum(row.gains for row in some)} gain, "
            f"{sum(not row.gains for row in some)} do not\n"
        )
    for name in ("precision", "accuracy", "after"):
        found = [getattr(row, name) for row in rows]
        lines.append(
            f"- {name}: the interval covers the truth in {sum(x.covers for x in found)} of "
            f"{len(found)} rows; the estimate is above it in "
            f"{sum(x.value > x.true for x in found)}, by at most "
            f"{max(x.value - x.true for x in found):.1f} points, and below it by at most "
            f"{max(x.true - x.value for x in found):.1f}\n"
        )
    return ["".join(lines)]


def _way(results: Sequence[TTMResult]) -> Way:
    every = [_rows(result) for result in results]
    return Way(
        before=results[0].raw_metrics["group_match"]["percent"],
        after=tuple(result.metrics["group_match"]["percent"] for result in results),
        grounded_before=100 * every[0][0]["grounded"]["gain"],
        grounded_after=fmean(100 * rows[-1]["grounded"]["gain"] for rows in every),
        alarms=sum(any(row.get("alarm") for row in rows) for rows in every),
    )


def _rows(result: TTMResult) -> list[dict[str, Any]]:
    assert result.run_dir is not None
    return RunFolder(result.run_dir).metrics()


def _mean(values: Sequence[float]) -> str:
    found = spread(values)
    return f"{found['mean']:.1f}" + ("" if found["std"] is None else f" ± {found['std']:.1f}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(r) for r in rows)]
    return "".join(f"| {line} |\n" for line in lines)
