"""What was measured beside what the paper has, with a verdict for every number.

Raw scores and SimpleMatch are counts of a deterministic model, so only the same count is right. TTM
is a mean over seeds, and the paper does not give its seeds: TTM is judged by the paper's standard
deviation. Standard deviations here divide by n, as the paper's do (`matching.mean_over_seeds`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

from ttm_jax.config import TTMConfig
from ttm_jax.data.paper import PaperResult, find_result
from ttm_jax.engine.result import TTMResult
from ttm_jax.matching.mean_over_seeds import population_std
from ttm_jax.matching.metric_names import headline_in
from ttm_jax.matching.rate_interval import error_reduction, relative_gain

Kind = Literal["equal", "within", "off", "no number", "not run"]
Name = Literal["raw", "simple_match", "ttm"]
ROUNDING = 0.005 + 1e-9  # the paper prints two decimals
DEVIATIONS = 2


@dataclass(frozen=True)
class Number:
    """A percentage, with the count behind it or its spread over runs."""

    percent: float
    count: int | None = None
    of: int | None = None
    std: float | None = None


@dataclass(frozen=True)
class Verdict:
    """One number of a row. `paper` is None where the paper gives no such number, `here` is None
    where nothing was run. `floor` is the smallest tolerance, in points."""

    name: Name
    here: Number | None
    paper: Number | None
    kind: Kind
    floor: float = 0.0

    @property
    def difference(self) -> float | None:
        if self.here is None or self.paper is None:
            return None
        return self.here.percent - self.paper.percent

    @property
    def text(self) -> str:
        """In words, for the last column of a table."""
        if self.here is None:
            return "not run"
        if self.paper is None or self.difference is None:
            return "not in the paper"
        off = f"{self.difference:+.2f}"
        if self.kind == "equal":
            return "equal count" if self.paper.count is not None else "equal"
        if self.kind == "within":
            if abs(self.difference) <= _two_deviations(self.paper):
                return f"within two standard deviations ({off})"
            return f"within one group in one run ({off})"
        if self.here.count is not None and self.paper.count is not None:
            return f"off by {self.here.count - self.paper.count:+d} ({off} points)"
        if self.paper.std:
            return f"off by {off} ({abs(self.difference) / self.paper.std:.1f} standard deviations)"
        return f"off by {off}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference, "text": self.text}


@dataclass(frozen=True)
class Gain:
    """TTM over SimpleMatch, or over the raw score of 1 x k groups: the paper's last two columns."""

    points: float
    relative: float
    """In percent of the value before; infinite from 0."""
    error_reduction: float
    """In percent of the errors before."""


@dataclass(frozen=True)
class Comparison:
    """A row of a table: what was run, and its numbers beside the paper's."""

    dataset: str
    model: str
    label: str
    """What distinguishes the row among others of the same data and model; may be empty."""
    seeds: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    note: str = ""
    """Why some or all of the paper's numbers are not beside these."""

    def gain(self, side: Literal["here", "paper"]) -> Gain | None:
        """None if a number is missing on this side."""
        numbers = {verdict.name: getattr(verdict, side) for verdict in self.verdicts}
        before = numbers.get("simple_match", numbers.get("raw"))
        after = numbers.get("ttm")
        if before is None or after is None:
            return None
        old, new = before.percent, after.percent
        return Gain(new - old, relative_gain(old, new), error_reduction(old, new))

    def as_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("dataset", "model", "label", "note")}
        return {
            **fields,
            "seeds": list(self.seeds),
            "std": "population standard deviation over runs (n), as in the paper; null for one run",
            "numbers": [verdict.as_json() for verdict in self.verdicts],
        }


def judge(name: Name, here: Number | None, paper: Number | None, floor: float = 0.0) -> Verdict:
    """Equal count, within the tolerance, or off.

    The tolerance of a mean is two of the paper's standard deviations, and at least `floor`: with a
    printed deviation of 0, one group in one run would otherwise be off.
    """
    if here is None:
        return Verdict(name, None, paper, "not run", floor)
    if paper is None:
        return Verdict(name, here, None, "no number", floor)
    kind: Kind = "off"
    difference = abs(here.percent - paper.percent)
    if here.count is not None and paper.count is not None:
        if (here.count, here.of) == (paper.count, paper.of):
            kind = "equal"
    elif difference <= ROUNDING:
        kind = "equal"
    elif paper.std is not None and difference <= max(_two_deviations(paper), floor + ROUNDING):
        kind = "within"
    return Verdict(name, here, paper, kind, floor)


def compare(results: Sequence[TTMResult], paper: PaperResult | None) -> tuple[Verdict, ...]:
    """The verdicts on the runs of all seeds: raw, SimpleMatch where it differs from raw, TTM."""
    before = results[0].raw_metrics
    match = headline_in(before)
    finals = [result.metrics[match]["percent"] for result in results]
    return (*judge_raw(before, paper), judge_mean("ttm", finals, before[match]["of"], paper))


def judge_mean(
    name: Name, percents: Sequence[float], units: int, paper: PaperResult | None
) -> Verdict:
    """The verdict on the mean of several runs, each over this many groups (or pairs)."""
    here = Number(fmean(percents), std=population_std(percents))
    percent = None if paper is None else getattr(paper, name)
    theirs = None if percent is None else Number(percent, std=getattr(paper, f"{name}_std"))
    return judge(name, here, theirs, floor=100 / (units * len(percents)))


def judge_raw(before: dict[str, Any], paper: PaperResult | None) -> tuple[Verdict, ...]:
    """The numbers of the untrained model, from `evaluate`."""
    judged = []
    if "group_score" in before:  # plain lists that never were groups have none
        theirs = None
        if paper is not None:
            of = before["group_score"]["of"] if paper.matching == "global" else paper.groups
            theirs = Number(paper.raw, paper.raw_count, of)
        judged.append(judge("raw", _rate(before["group_score"]), theirs))
    match = headline_in(before)
    # For one image and k captions SimpleMatch is the raw score: not a number of its own.
    if "group_score" not in before or before[match] != before["group_score"]:
        theirs = None
        if paper is not None and paper.simple_match is not None:
            theirs = Number(paper.simple_match, paper.simple_match_count, paper.groups)
        judged.append(judge("simple_match", _rate(before[match]), theirs))
    return tuple(judged)


def paper_row(dataset: str, model: str, preset: TTMConfig, config: TTMConfig) -> PaperResult | None:
    """The paper's row for such a run, without its TTM column if the settings differ.

    Raw scores do not depend on the settings; other numbers of iterations have rows of their own.
    """
    row = find_result(dataset, model, preset.matching)
    if row is None:
        return None
    if replace(config, iterations=preset.iterations) == preset:
        same = find_result(dataset, model, preset.matching, config.iterations)
        if same is not None:
            return same
    return replace(row, ttm=None, ttm_std=None)


def _two_deviations(paper: Number) -> float:
    return DEVIATIONS * (paper.std or 0.0) + ROUNDING


def _rate(rate: dict[str, Any]) -> Number:
    return Number(rate["percent"], rate["count"], rate["of"])
