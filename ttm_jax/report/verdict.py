"""What was measured beside what the paper has, with a verdict for every number.

Raw scores and SimpleMatch are counts of a deterministic model, so only the same count is right. TTM
is a mean over seeds, which are not published: it is judged by the paper's standard deviation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ttm_jax.config import TTMConfig
from ttm_jax.data.paper import PaperResult, find_result
from ttm_jax.seeds import spread
from ttm_jax.ttm import TTMResult

Kind = Literal["equal", "within", "off", "no number"]
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
    """One number of a row. `paper` is None where the paper gives no such number."""

    name: Name
    here: Number
    paper: Number | None
    kind: Kind

    @property
    def difference(self) -> float | None:
        return None if self.paper is None else self.here.percent - self.paper.percent

    @property
    def text(self) -> str:
        """In words, for the last column of a table."""
        if self.paper is None or self.difference is None:
            return "not in the paper"
        off = f"{self.difference:+.2f}"
        if self.kind == "equal":
            return "equal count" if self.paper.count is not None else "equal"
        if self.kind == "within":
            return f"within two standard deviations ({off})"
        if self.here.count is not None and self.paper.count is not None:
            return f"off by {self.here.count - self.paper.count:+d} ({off} points)"
        if self.paper.std:
            return f"off by {off} ({abs(self.difference) / self.paper.std:.1f} standard deviations)"
        return f"off by {off}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference, "text": self.text}


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
    """Why the paper's numbers are not beside these, if they are not."""

    def as_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("dataset", "model", "label", "note")}
        return {
            **fields,
            "seeds": list(self.seeds),
            "numbers": [verdict.as_json() for verdict in self.verdicts],
        }


def judge(name: Name, here: Number, paper: Number | None) -> Verdict:
    """Equal count, within two of the paper's standard deviations, or off."""
    if paper is None:
        return Verdict(name, here, None, "no number")
    kind: Kind = "off"
    difference = abs(here.percent - paper.percent)
    if here.count is not None and paper.count is not None:
        if (here.count, here.of) == (paper.count, paper.of):
            kind = "equal"
    elif difference <= ROUNDING:
        kind = "equal"
    elif paper.std is not None and difference <= DEVIATIONS * paper.std + ROUNDING:
        kind = "within"
    return Verdict(name, here, paper, kind)


def compare(results: Sequence[TTMResult], paper: PaperResult | None) -> tuple[Verdict, ...]:
    """The verdicts on the runs of all seeds; raw, SimpleMatch where it is another number, TTM."""
    before = results[0].raw_metrics
    match = "global_match" if "global_match" in before else "group_match"
    final = spread([result.metrics[match]["percent"] for result in results])
    here = Number(final["mean"], std=final["std"])
    return (*judge_raw(before, paper), judge("ttm", here, None if paper is None else _ttm(paper)))


def judge_raw(before: dict[str, Any], paper: PaperResult | None) -> tuple[Verdict, ...]:
    """The numbers of the model as it came, from `evaluate`."""
    judged = []
    if "group_score" in before:  # plain lists that never were groups have none
        theirs = None
        if paper is not None:
            of = before["group_score"]["of"] if paper.matching == "global" else paper.groups
            theirs = Number(paper.raw, paper.raw_count, of)
        judged.append(judge("raw", _rate(before["group_score"]), theirs))
    match = "global_match" if "global_match" in before else "group_match"
    # For one image and k captions SimpleMatch is the raw score: not a number of its own.
    if "group_score" not in before or before[match] != before["group_score"]:
        theirs = None
        if paper is not None and paper.simple_match is not None:
            theirs = Number(paper.simple_match, paper.simple_match_count, paper.groups)
        judged.append(judge("simple_match", _rate(before[match]), theirs))
    return tuple(judged)


def paper_row(dataset: str, model: str, preset: TTMConfig, config: TTMConfig) -> PaperResult | None:
    """The paper's row for such a run; without its TTM column if the settings are others.

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


def _rate(rate: dict[str, Any]) -> Number:
    return Number(rate["percent"], rate["count"], rate["of"])


def _ttm(paper: PaperResult) -> Number | None:
    return None if paper.ttm is None else Number(paper.ttm, std=paper.ttm_std)
