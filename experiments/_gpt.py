"""The experiments with models behind an API: arguments and course, shared by the benchmarks."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.scorers.api import (
    Limits,
    Neither,
    Prices,
    Question,
    Rule,
    RunScores,
    fetch,
    from_environment,
    look_ahead,
    make_plan,
    read_run,
    settle,
)


@dataclass(frozen=True)
class Args:
    out: Path | None = None
    """The run folder (default: runs/NAME_OF_THE_EXPERIMENT)."""
    cache: Path = Path("runs/api_responses.sqlite")
    """Where answers are kept; commands and processes share it, and what is there costs nothing."""
    data_dir: Path | None = None
    """Where the benchmark lies (default: $TTM_JAX_DATA or the user's cache; see prepare_data)."""
    data: Path | None = None
    """Your own data instead of the benchmark: a folder with groups.jsonl (docs/own_data.md)."""
    small: bool = False
    """A small set of drawn pictures instead of the benchmark, to try a server out."""
    groups: int | None = None
    """Only the first so many groups."""
    skip_broken: bool = False
    """Leave out groups of the benchmark whose images cannot be read, and list them."""
    runs: int = 4
    """How often everything is asked; the paper has four runs."""
    rule: Rule = "variants"
    """Which tokens make the score: all spellings of Yes, or exactly as t2v_metrics does."""
    neither: Neither = "fail"
    """Answers without Yes or No: stop in the end, score them 0, or drop their groups."""
    key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key. The key itself is never an argument."""
    budget: float | None = None
    """USD: stop before all requests together, earlier commands included, would cost more."""
    dry_run: bool = False
    """Print the number of requests, tokens and costs, and send nothing."""
    tokens_per_image: int | None = None
    """Tokens that an image takes, for the estimate (default: OpenAI's rule for the model)."""
    question: tyro.conf.OmitArgPrefixes[Question] = field(default_factory=Question)
    limits: tyro.conf.OmitArgPrefixes[Limits] = field(default_factory=Limits)
    prices: tyro.conf.OmitArgPrefixes[Prices] = field(default_factory=Prices)


def main(benchmark: str, name: str, about: str | None) -> None:
    """Ask, score, evaluate and report; `benchmark` is its name in `ttm_jax.data.benchmarks`."""
    args = tyro.cli(Args, description=about)
    from ttm_jax.scorers.api.results import outlook_text

    dataset, loaded = load(args, benchmark)
    plan = make_plan(dataset, args.question, args.runs, args.tokens_per_image)
    if args.dry_run:
        print(f"{dataset.name}: {len(dataset)} groups, {args.runs} runs, {args.question.model}")
        print(outlook_text(look_ahead(plan, args.cache), args.prices, args.limits))
        return
    secret = from_environment(args.key_env)
    from ttm_jax.runlog import RunFolder
    from ttm_jax.scorers.api.plan import identity
    from ttm_jax.scorers.api.progress import on_terminal_or_log

    out = args.out or Path("runs") / (f"{name}_small" if args.small else name)
    RunFolder(out).open(identity(plan))
    replies = fetch(
        plan,
        args.cache,
        secret,
        limits=args.limits,
        prices=args.prices,
        budget=args.budget,
        progress=on_terminal_or_log(),
    )
    runs = [read_run(replies, run, args.rule) for run in range(1, args.runs + 1)]
    metrics = write_runs(out, dataset, runs, args.neither)
    report(out, benchmark, args, replies, runs, metrics, loaded)


def load(args: Args, benchmark: str) -> tuple[GroupedDataset, dict[str, Any] | None]:
    """The data that was asked for, and what there is to say about a benchmark."""
    if args.small and args.data is not None:
        raise InputError("--small and --data name two sets of data; give one of them")
    loaded = None
    if args.small:
        from ttm_jax.data import world

        dataset = world.make("color_swap", groups=6)
    elif args.data is not None:
        from ttm_jax.data.folder import read_folder

        dataset = read_folder(args.data)
    else:
        from ttm_jax.data.benchmarks import load_benchmark

        found = load_benchmark(benchmark, args.data_dir, skip_broken=args.skip_broken)
        dataset, loaded = found.dataset, found.summary()
    if args.groups is not None:
        if args.groups < 1:
            raise InputError(f"--groups is {args.groups}; expected at least 1")
        dataset = dataset.limit(args.groups)
    return dataset, loaded


def write_runs(
    out: Path, dataset: GroupedDataset, runs: list[RunScores], neither: Neither
) -> list[dict[str, dict[str, Any]]]:
    """Score files and metrics of every run; what is unanswered is listed in a file of its own.

    What an earlier command left is removed first: all of it follows from the answers, at no cost.
    """
    from ttm_jax.evaluation import evaluate
    from ttm_jax.files import append_lines, write_text
    from ttm_jax.scorers.api.matrix import explain
    from ttm_jax.scorers.api.results import write_scores

    for old in (out / "summary.json", *(out / "scores").glob("run_*.npz")):
        old.unlink(missing_ok=True)
    unanswered = [entry for run in runs for entry in run.unanswered]
    write_text(out / "unanswered.jsonl", "")
    append_lines(out / "unanswered.jsonl", unanswered)
    metrics = []
    for run in runs:
        if run.unanswered and neither == "fail":
            continue
        kept, scores = settle(run, dataset, neither)
        write_scores(out / "scores", run.run, kept, scores)
        metrics.append(evaluate(scores, kept, "group"))
    if unanswered and neither == "fail":
        raise InputError(f"{explain(runs)}. They are listed in {out / 'unanswered.jsonl'}")
    return metrics


def report(
    out: Path,
    benchmark: str,
    args: Args,
    replies: Any,
    runs: list[RunScores],
    metrics: list[dict[str, dict[str, Any]]],
    loaded: dict[str, Any] | None,
) -> None:
    from ttm_jax.files import write_json
    from ttm_jax.scorers.api.results import paper_numbers, result_text, summarise

    # The paper's numbers are of the whole benchmark, so they stand beside nothing else.
    comparable = loaded is not None and args.groups is None
    summary = summarise(
        replies, runs, metrics, args.prices, paper_numbers(benchmark) if comparable else None
    )
    summary |= {"rule": args.rule, "neither": args.neither, "benchmark": loaded}
    write_json(out / "summary.json", summary)
    print(result_text(summary))
    print(f"{out}: summary.json, and scores/ for python -m experiments.evaluate_scores")
