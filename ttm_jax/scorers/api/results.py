"""What a finished experiment leaves: score files, a summary, a table beside the paper's numbers."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.data.groups import Block, GroupedDataset
from ttm_jax.files import write_atomic
from ttm_jax.scorers.api.matrix import RunScores
from ttm_jax.scorers.api.money import usd
from ttm_jax.scorers.api.score import Outlook, Replies
from ttm_jax.scorers.api.settings import Limits, Prices, Usage

# our name -> (the metric's, the column of the paper's table)
_COLUMNS = {"group_score": ("group_score", "raw"), "simple_match": ("group_match", "simple_match")}
_TITLES = {"group_score": "GroupScore, raw", "simple_match": "SimpleMatch"}


def write_scores(
    folder: Path, run: int, dataset: GroupedDataset, scores: tuple[np.ndarray, ...]
) -> list[Path]:
    """`run_N.npz` for `experiments.evaluate_scores`; one for each shape if there are several."""
    written = []
    for block, values in zip(dataset.blocks, scores, strict=True):
        rows, columns = block.shape
        shape = f"_{rows}x{columns}" if len(dataset.blocks) > 1 else ""
        written.append(folder / f"run_{run}{shape}.npz")
        arrays: dict[str, Any] = _arrays(block, values)
        write_atomic(written[-1], partial(np.savez, **arrays))
    return written


def _arrays(block: Block, scores: np.ndarray) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"scores": scores, "ids": np.array(block.ids, dtype=np.str_)}
    if block.truth is not None:
        arrays["truth"] = block.truth
    most = max(map(len, block.tags), default=0)
    if most:
        rows = [(*tags, *[""] * (most - len(tags))) for tags in block.tags]
        arrays["tags"] = np.array(rows, dtype=np.str_)
    return arrays


def summarise(
    replies: Replies,
    runs: list[RunScores],
    metrics: list[dict[str, dict[str, Any]]],
    prices: Prices,
    paper: dict[str, float | None] | None,
) -> dict[str, Any]:
    """Everything about the experiment, for `summary.json`; `metrics` has an entry for each run."""
    from ttm_jax.seeds import spread

    plan, by_key = replies.plan, replies.by_key
    return {
        "model": plan.question.model,
        "served_models": _counted(reply.served_model for reply in by_key.values()),
        "fingerprints": _counted(reply.fingerprint for reply in by_key.values()),
        "dataset": plan.dataset.name,
        "groups": len(plan.dataset),
        "std": "sample standard deviation over runs (n - 1); null for one run",
        "results": {
            name: spread([m[metric]["percent"] for m in metrics])
            | {"paper": (paper or {}).get(name)}
            for name, (metric, _) in _COLUMNS.items()
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
        "tokens_lost": _tokens(replies.lost) | {"about": "no answer, perhaps billed; estimated"},
        "cost_usd": prices.cost(replies.used) + prices.cost(replies.lost) if prices.known else None,
    }


def paper_numbers(benchmark: str) -> dict[str, float | None] | None:
    """The paper's row of GPT-4.1 for a benchmark (Table 1)."""
    from ttm_jax.data.paper import find_result

    row = find_result(benchmark, "gpt_4_1")
    if row is None:
        return None
    return {name: getattr(row, column) for name, (_, column) in _COLUMNS.items()}


def result_text(summary: dict[str, Any]) -> str:
    """The table, and a line on answers and one on money."""
    runs = summary["runs"]
    lines = [f"{summary['dataset']}, {summary['model']}, runs: {len(runs)}"]
    if summary["results"]:
        lines.append(f"{'':18}{'mean':>8}{'std':>8}{'paper':>8}   right in each run")
    for name, result in summary["results"].items():
        rates = [run["metrics"][_COLUMNS[name][0]] for run in runs]
        counts = ", ".join(f"{rate['count']}/{rate['of']}" for rate in rates)
        std, paper = _number(result["std"]), _number(result["paper"])
        lines.append(f"{_TITLES[name]:18}{result['mean']:8.2f}{std:>8}{paper:>8}   {counts}")
    if not summary["results"]:
        lines.append("no truth is known, so there are scores but no metrics")
    kinds: Counter[str] = Counter()
    for run in runs:
        kinds.update(run["answers"])
    words = {"yes": "P(Yes)", "no": "1 - P(No)"}
    counted = ", ".join(f"{count} {words.get(kind, kind)}" for kind, count in kinds.most_common())
    weak = sum(run["weak"] for run in runs)
    lines.append(f"answers: {counted}; weak (Yes and No together below one half): {weak}")
    tokens = summary["tokens"]
    cost = "" if summary["cost_usd"] is None else f", {usd(summary['cost_usd'])} in all"
    lines.append(
        f"sent now: {summary['requests']['sent_now']} requests; "
        f"tokens in all: {tokens['input']:,} in ({tokens['cached']:,} cached), "
        f"{tokens['output']:,} out{cost}"
    )
    return "\n".join(lines)


def outlook_text(outlook: Outlook, prices: Prices, limits: Limits) -> str:
    """What `--dry-run` prints."""
    missing = outlook.requests - outlook.answered
    tokens = outlook.estimate
    lines = [
        f"requests: {outlook.requests}, of which {outlook.answered} are answered and "
        f"{missing} would be sent",
        f"tokens (estimate): {tokens.input:,} in, {tokens.output:,} out",
    ]
    if prices.known:
        lines.append(
            f"cost (estimate): {usd(prices.cost(tokens))}; spent before: "
            f"{usd(prices.cost(outlook.spent))}"
        )
    else:
        lines.append("cost: unknown; give --price-input and --price-output")
    minutes = [
        amount / limit
        for amount, limit in (
            (missing, limits.requests_per_minute),
            (tokens.input, limits.tokens_per_minute),
        )
        if limit
    ]
    if minutes:
        lines.append(f"time at these limits: at least {max(minutes):.1f} minutes")
    lines.append("images are estimated by OpenAI's rule for the model; nothing was sent")
    return "\n".join(lines)


def _counted(names: Any) -> dict[str, int]:
    return dict(Counter("not given" if name is None else name for name in names))


def _tokens(usage: Usage) -> dict[str, Any]:
    return {"input": usage.input, "cached": usage.cached, "output": usage.output}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
