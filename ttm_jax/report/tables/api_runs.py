"""The result of an experiment with a model behind an API: summary, and table beside the paper's."""

from collections import Counter
from typing import Any, Literal

from ttm_jax.data.paper import PaperResult, find_result
from ttm_jax.matching.mean_over_seeds import population_std, spread
from ttm_jax.report.tables.beside_paper import show
from ttm_jax.report.tables.verdict import Number, judge_mean
from ttm_jax.scorers.api.cost import Prices, Usage, format_usd
from ttm_jax.scorers.api.fetch import Replies
from ttm_jax.scorers.api.scores import RunScores

_MODEL = "gpt_4_1"  # in the paper's tables
# name in summary.json -> (name of the metric, column of the paper's table, title)
_COLUMNS: dict[str, tuple[str, Literal["raw", "simple_match"], str]] = {
    "group_score": ("group_score", "raw", "GroupScore, raw"),
    "simple_match": ("group_match", "simple_match", "SimpleMatch"),
}
_NO_METRICS = "the truth is unknown, so there are scores but no metrics"
_ABOUT_STD = "± divides by the number of runs, n, as the paper's does; summary.json has n - 1 too"


def summarise_runs(
    replies: Replies,
    runs: list[RunScores],
    metrics: list[dict[str, dict[str, Any]]],
    prices: Prices,
    paper: PaperResult | None,
) -> dict[str, Any]:
    """Everything about the experiment, for `summary.json`; `metrics` has one entry per run."""
    plan, by_key = replies.plan, replies.by_key
    return {
        "model": plan.settings.model,
        "served_models": _counted(reply.served_model for reply in by_key.values()),
        "fingerprints": _counted(reply.fingerprint for reply in by_key.values()),
        "dataset": plan.dataset.name,
        "groups": len(plan.dataset),
        "std": "sample standard deviation over runs (n - 1); null for one run",
        "population_std": "the same, dividing by n, as the paper's does",
        "results": {
            name: _result(column, [m[metric] for m in metrics], paper)
            for name, (metric, column, _) in _COLUMNS.items()
            if all(metric in m for m in metrics)
        },
        "runs": [
            {"run": r.run, "answers": r.kinds, "weak": r.weak, "metrics": m}
            for r, m in zip(runs, metrics, strict=True)
        ],
        "requests": {
            "answers": len(by_key),
            "sent_now": replies.sent,
            "retried_now": replies.retried,
        },
        "tokens": _tokens(replies.used),
        "tokens_lost": _tokens(replies.lost) | {"about": "no answer, maybe billed; estimated"},
        "cost_usd": prices.cost(replies.used) + prices.cost(replies.lost) if prices.known else None,
    }


def paper_row(benchmark: str) -> PaperResult | None:
    """The paper's row of GPT-4.1 for a benchmark (Table 1)."""
    return find_result(benchmark, _MODEL)


def result_text(summary: dict[str, Any]) -> str:
    """The table, one line about the answers, and one about tokens and cost."""
    runs = summary["runs"]
    lines = [f"{summary['dataset']}, {summary['model']}, runs: {len(runs)}"]
    lines += _table(summary["results"], runs) if summary["results"] else [_NO_METRICS]
    kinds: Counter[str] = Counter()
    for run in runs:
        kinds.update(run["answers"])
    words = {"yes": "P(Yes)", "no": "1 - P(No)"}
    counted = ", ".join(f"{count} {words.get(kind, kind)}" for kind, count in kinds.most_common())
    weak = sum(run["weak"] for run in runs)
    lines.append(f"answers: {counted}; weak (Yes and No together below one half): {weak}")
    tokens = summary["tokens"]
    cost = "" if summary["cost_usd"] is None else f", {format_usd(summary['cost_usd'])} in total"
    lines.append(
        f"sent now: {summary['requests']['sent_now']} requests; "
        f"tokens in total: {tokens['input']:,} in ({tokens['cached']:,} cached), "
        f"{tokens['output']:,} out{cost}"
    )
    return "\n".join(lines)


def _result(
    column: Literal["raw", "simple_match"], rates: list[dict[str, Any]], paper: PaperResult | None
) -> dict[str, Any]:
    percents = [rate["percent"] for rate in rates]
    groups = min(rate["of"] for rate in rates)  # runs may drop different groups
    verdict = judge_mean(column, percents, groups, paper)
    theirs = verdict.paper
    return spread(percents) | {
        "population_std": population_std(percents),
        "paper": None if theirs is None else theirs.percent,
        "paper_std": None if theirs is None else theirs.std,
        "verdict": None if theirs is None else verdict.text,
    }


def _table(results: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:
    with_paper = any(result["paper"] is not None for result in results.values())
    lines = [f"{'':18}{'mean':>16}" + (f"{'paper':>16}   verdict" if with_paper else "")]
    correct = []
    for name, result in results.items():
        metric, _, title = _COLUMNS[name]
        here = show(Number(result["mean"], std=result["population_std"]))
        lines.append(f"{title:18}{here:>16}")
        if with_paper:
            theirs = show(Number(result["paper"], std=result["paper_std"]))
            lines[-1] += f"{theirs:>16}   {result['verdict']}"
        rates = [run["metrics"][metric] for run in runs]
        counts = ", ".join(f"{rate['count']}/{rate['of']}" for rate in rates)
        correct.append(f"{title}, correct in each run: {counts}")
    about = [_ABOUT_STD] if len(runs) > 1 else []
    return [*lines, *about, *correct]


def _counted(names: Any) -> dict[str, int]:
    return dict(Counter("not given" if name is None else name for name in names))


def _tokens(usage: Usage) -> dict[str, Any]:
    return {"input": usage.input, "cached": usage.cached, "output": usage.output}
