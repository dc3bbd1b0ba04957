"""Rows of GPT-4.1 beside the paper's, from the run folders of the commands that ask it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ttm_jax.data.paper import PaperResult, find_result
from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.report.tables.verdict import Comparison, Name, Number, Verdict, judge, judge_mean

MODEL = "gpt_4_1"
_SAME = ("gpt-4.1", "gpt-4.1-2025-04-14")  # the paper's, by its two names at the server
# our column -> the metric in a summary
_METRICS: tuple[tuple[Name, str], ...] = (("raw", "group_score"), ("simple_match", "group_match"))


def is_api_run(folder: Path) -> bool:
    """Whether the folder holds the finished run of a model behind an API."""
    path = folder / "summary.json"
    if not path.is_file():
        return False
    summary = read_json(path)
    return isinstance(summary, dict) and {"served_models", "runs", "groups"} <= summary.keys()


def api_row(folder: Path) -> Comparison:
    """The row of a finished run, beside the paper's if data and model are the paper's."""
    summary = read_json(folder / "summary.json")
    try:
        return _row(summary)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder}/summary.json is not that of a finished run: {type(error).__name__} {error}; "
            "rerun its command"
        ) from error


def row_not_run(dataset: str) -> Comparison:
    """The paper's numbers alone."""
    paper = find_result(dataset, MODEL)
    if paper is None:
        raise InputError(f"the paper has no GPT-4.1 on {dataset}")
    return Comparison(dataset, MODEL, "", (), _verdicts({}, paper))


def _row(summary: Mapping[str, Any]) -> Comparison:
    benchmark = summary["benchmark"]  # None for data of one's own
    dataset = summary["dataset"] if benchmark is None else benchmark["benchmark"]
    paper = None if benchmark is None else find_result(dataset, MODEL)
    metrics = [run["metrics"] for run in summary["runs"]]
    note = ""
    if summary["model"] not in _SAME:
        note = "not the paper's model"
    elif paper is None or any(m["group_score"]["of"] != paper.groups for m in metrics):
        note = "not the paper's data"
    rates = {name: [m[metric] for m in metrics] for name, metric in _METRICS}
    return Comparison(
        dataset,
        summary["model"] if note else MODEL,
        "",
        tuple(run["run"] for run in summary["runs"]),
        _verdicts(rates, None if note else paper),
        note,
    )


def _verdicts(
    rates: Mapping[Name, Sequence[Mapping[str, Any]]], paper: PaperResult | None
) -> tuple[Verdict, ...]:
    judged = []
    for name, _ in _METRICS:
        if rates.get(name):
            percents = [rate["percent"] for rate in rates[name]]
            judged.append(judge_mean(name, percents, rates[name][0]["of"], paper))
        elif paper is not None:
            theirs = Number(getattr(paper, name), std=getattr(paper, f"{name}_std"))
            judged.append(judge(name, None, theirs))
    return tuple(judged)
