"""The experiments with models behind an API: flags and steps, shared by the benchmarks."""

import re
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.hosts.join import Hosts, join
from ttm_jax.runs.signals import RunInterrupted
from ttm_jax.scorers.api import (
    MissingPolicy,
    Prices,
    RateLimits,
    RequestSettings,
    RetryPolicy,
    RunScores,
    TokenRule,
    check_budget,
    estimate_cost,
    fetch_replies,
    make_plan,
    read_api_key,
    read_run,
    resolve_missing,
)


# tyro prints an error of a nested dataclass as a box of several lines, so the flags are read into
# classes without checks, and `run` builds the real ones.
@dataclass(frozen=True)
class RequestFlags(RequestSettings):
    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class RateFlags(RateLimits):
    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class RetryFlags(RetryPolicy):
    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class PriceFlags(Prices):
    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class Args:
    out: Annotated[Path | None, option("FOLDER", "runs/NAME_OF_THE_EXPERIMENT")] = None
    """The run folder."""
    cache: Path = Path("runs/api_responses.sqlite")
    """The file with all answers. Commands share it, and cached answers cost nothing."""
    data_dir: Annotated[Path | None, option("FOLDER", "$TTM_JAX_DATA or the user's cache")] = None
    """Where the benchmark is; see `ttm data`."""
    data: Annotated[Path | None, option("FOLDER")] = None
    """Your own data instead of the benchmark: a folder with groups.jsonl (docs/own_data.md)."""
    small: Switch = False
    """Use a few drawn pictures instead of the benchmark, to try out a server."""
    groups: Annotated[int | None, option("N", "all")] = None
    """Use only the first N groups."""
    skip_broken: Switch = False
    """Leave out groups of the benchmark whose images cannot be read, and list them."""
    runs: int = 4
    """How often everything is asked; the paper has four runs."""
    rule: TokenRule = "variants"
    """Which tokens make the score: all spellings of Yes, or what t2v_metrics does (or did)."""
    neither: MissingPolicy = "fail"
    """Answers that are neither Yes nor No: fail at the end, score them 0, or drop their groups."""
    key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the API key. The key itself is never a flag."""
    budget: Annotated[float | None, option("USD")] = None
    """Stop before all requests, including those of earlier commands, cost more than this."""
    dry_run: Switch = False
    """Print the number of requests and the estimated tokens and cost, and send nothing."""
    tokens_per_image: Annotated[int | None, option("N", "OpenAI's rule for the model")] = None
    """Tokens per image, for the estimate."""
    hosts: Hosts = "auto"
    """Let the first of several hosts do it (TPU pod, SLURM, ...), or do not look for others."""
    request: tyro.conf.OmitArgPrefixes[RequestFlags] = field(default_factory=RequestFlags)
    rates: tyro.conf.OmitArgPrefixes[RateFlags] = field(default_factory=RateFlags)
    retry: tyro.conf.OmitArgPrefixes[RetryFlags] = field(default_factory=RetryFlags)
    prices: tyro.conf.OmitArgPrefixes[PriceFlags] = field(default_factory=PriceFlags)


_SETTINGS = (Args, RequestFlags, RateFlags, RetryFlags, PriceFlags)
_FLAGS = {f.name for settings in _SETTINGS for f in fields(settings)}


def main(benchmark: str, name: str, about: str | None) -> None:
    """Run one experiment; `benchmark` is its name in the catalogue of benchmarks."""
    try:
        args = parse(Args, sys.argv[1:], f"python -m experiments.{name}", about)
        run(args, benchmark, name)
    except InputError as error:
        raise InputError(as_flags(str(error))) from error
    except RunInterrupted as error:
        raise RunInterrupted(as_flags(str(error)), error.code) from error


def as_flags(text: str) -> str:
    """The library calls a setting `price_input`; users of the command know it as --price-input."""

    def flag(match: re.Match[str]) -> str:
        name = match[1]
        return f"--{name.replace('_', '-')}" if name in _FLAGS else match[0]

    return re.sub(r"`(\w+)`", flag, text)


def run(args: Args, benchmark: str, name: str) -> None:
    """Ask, score, evaluate and report."""
    settings = RequestSettings(**vars(args.request))
    rates, retry = RateLimits(**vars(args.rates)), RetryPolicy(**vars(args.retry))
    prices = Prices(**vars(args.prices))
    check_budget(args.budget, prices)
    dataset, loaded = load(args, benchmark)
    plan = make_plan(dataset, settings, args.runs, args.tokens_per_image)
    if join(args.hosts):
        return  # one host asks
    if args.dry_run:
        print(f"{dataset.name}: {len(dataset)} groups, {args.runs} runs, {settings.model}")
        estimate = estimate_cost(plan, args.cache)
        print(as_flags(estimate.describe(prices, rates)))
        return
    key = read_api_key(args.key_env)
    settings.check_key_absent(key)  # before anything is written
    from ttm_jax.runs.folder import RunFolder
    from ttm_jax.runs.progress import progress_on_stderr
    from ttm_jax.scorers.api.request import plan_identity

    out = args.out or Path("runs") / (f"{name}_small" if args.small else name)
    RunFolder(out).open(plan_identity(plan))
    replies = fetch_replies(
        plan,
        args.cache,
        key,
        rates=rates,
        retry=retry,
        prices=prices,
        budget=args.budget,
        progress=progress_on_stderr("answers"),
    )
    runs = [read_run(replies, run, args.rule) for run in range(1, args.runs + 1)]
    metrics = write_runs(out, dataset, runs, args.neither)
    report(out, benchmark, args, replies, runs, metrics, loaded)


def load(args: Args, benchmark: str) -> tuple[GroupedDataset, dict[str, Any] | None]:
    """The chosen data, and a summary of the benchmark if it is one."""
    if args.small and args.data is not None:
        raise InputError("--small and --data name different data; give one of them")
    loaded = None
    if args.small:
        from ttm_jax.data import world

        dataset = world.make("color_swap", groups=6)
    elif args.data is not None:
        from ttm_jax.data.folder_reader import read_folder

        dataset = read_folder(args.data)
    else:
        from ttm_jax.data.benchmarks.catalogue import load_benchmark

        found = load_benchmark(benchmark, args.data_dir, skip_broken=args.skip_broken)
        dataset, loaded = found.dataset, found.summary()
    if args.groups is not None:
        if args.groups < 1:
            raise InputError(f"--groups is {args.groups}; expected at least 1")
        dataset = dataset.limit(args.groups)
    return dataset, loaded


def write_runs(
    out: Path, dataset: GroupedDataset, runs: list[RunScores], neither: MissingPolicy
) -> list[dict[str, dict[str, Any]]]:
    """Write the score files and return the metrics of every run; list what is unanswered.

    Files of an earlier command are removed first: they can be made again from the answers for free.
    """
    from ttm_jax.engine.evaluation import evaluate
    from ttm_jax.files import append_lines, write_text
    from ttm_jax.scorers.api.scores import describe_missing, write_scores

    for old in (out / "summary.json", *(out / "scores").glob("run_*.npz")):
        old.unlink(missing_ok=True)
    unanswered = [entry for run in runs for entry in run.unanswered]
    write_text(out / "unanswered.jsonl", "")
    append_lines(out / "unanswered.jsonl", unanswered)
    metrics = []
    for run in runs:
        if run.unanswered and neither == "fail":
            continue
        kept, scores = resolve_missing(run, dataset, neither)
        write_scores(out / "scores", run.run, kept, scores)
        metrics.append(evaluate(scores, kept, "group"))
    if unanswered and neither == "fail":
        raise InputError(
            f"{describe_missing(runs)}. All answers are kept: rerun at no cost with --neither zero "
            "(their score is 0, as in t2v_metrics) or --neither drop (their groups are left out). "
            f"They are listed in {out / 'unanswered.jsonl'}"
        )
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
    """Write summary.json and print the table."""
    from ttm_jax.files import write_json
    from ttm_jax.report.tables.api_runs import paper_row, result_text, summarise_runs

    # The paper's numbers are for the whole benchmark, so they are shown beside nothing else.
    comparable = loaded is not None and args.groups is None
    summary = summarise_runs(
        replies, runs, metrics, args.prices, paper_row(benchmark) if comparable else None
    )
    summary |= {"rule": args.rule, "neither": args.neither, "benchmark": loaded}
    write_json(out / "summary.json", summary)
    print(result_text(summary))
    print(f"{out}: summary.json, and scores/ for `ttm evaluate`")
