"""What a user sees of a run on their own data: before it, and after it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from ttm_jax.bucket_storage import shown
from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.data.own_data import OwnData
from ttm_jax.data.paper.models import MODELS
from ttm_jax.engine.cost_estimate import Estimate
from ttm_jax.engine.devices import outlook_on
from ttm_jax.engine.result import TTMResult
from ttm_jax.engine.seeds import summarise
from ttm_jax.files import write_json, write_text
from ttm_jax.hosts.this_host import is_first
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.models.flops import forward_flops, step_flops
from ttm_jax.report.checkpoints.adapted_model import check_model, holds_files, write_model
from ttm_jax.report.dataset_line import describe
from ttm_jax.report.matchings_jsonl import matching_lines
from ttm_jax.report.matchings_table import answer_rows, as_csv, print_answer
from ttm_jax.report.run_data import read_one
from ttm_jax.runs.folder import RunFolder
from ttm_jax.runs.locate import MODEL, RUN
from ttm_jax.scorers.contrastive.model import ContrastiveModel

_SHOWN = ("group_score", "group_match", "global_match")


def outlook_text(
    dataset: GroupedDataset,
    model: str,
    config: TTMConfig,
    found: Estimate,
    seeds: int = 1,
    verdict: str = "",
    elsewhere: str = "",
) -> str:
    """What `--dry-run` prints; `verdict` is the sentence of a diagnosis, `elsewhere` what the run
    would take on another machine."""
    unit = "pairs" if config.matching == "global" else "groups"
    share = f"{found.first_share:.0%} of the {unit} at first"
    if found.sampled < found.units and config.tau_unit != "fraction":
        share += f" (from {found.sampled} of {found.units})"
    devices = jax.devices()
    steps = _range(str(found.least_steps), str(found.most_steps))
    totals = (found.seconds(n, seeds) for n in (found.least_steps, found.most_steps))
    duration = _range(*map(_duration, totals))
    several = "" if seeds == 1 else f" for each of {seeds} seeds"
    lines = [
        describe(dataset, config),
        f"model: {model}, {found.parameters / 1e6:.1f} M parameters, "
        f"{len(devices)} x {devices[0].device_kind}",
        f"settings: {config.iterations} iterations of {config.epochs} epochs, {found.batch} {unit} "
        f"per batch, lr {config.lr:g}, {config.schedule} thresholds",
        f"tau_1: {found.taus[0]:.4g}, which selects {share}; tau_T: {found.taus[-1]:.4g}",
        f"memory: about {_size(found.step_bytes)} for a step and "
        f"{_size(found.data_bytes)} for the data; there are {_size(found.available_bytes)}",
        f"disk: about {_size(found.disk_bytes)} for checkpoints and the adapted model",
        f"time: {found.step_seconds:.2g} s per step, {found.score_seconds:.2g} s to score all; "
        f"{steps} steps{several}; with {_duration(found.compile_seconds)} for compiling, "
        f"{duration} in all",
        *([elsewhere] if elsewhere else []),
        *([verdict] if verdict else []),
        "nothing was written",
    ]
    return "\n".join(lines)


def elsewhere(
    device: str | None,
    model: Any,
    dataset: GroupedDataset,
    config: TTMConfig,
    found: Estimate,
    seeds: int,
) -> str:
    """What a run would take on a named machine; empty if none is named."""
    if device is None:
        return ""
    if not isinstance(model, ContrastiveModel):
        return f"{device}: no estimate for generative models"
    grouped = config.matching == "group"
    width = max(min(block.shape) for block in dataset.blocks) if grouped else 1
    image, caption = forward_flops(model.config)
    return outlook_on(
        device,
        config,
        step=step_flops(model.config, found.batch * width),
        score=len(dataset.images) * image + len(dataset.captions) * caption,
        steps=(found.least_steps, found.most_steps),
        seeds=seeds,
    )


def write_results(
    out: Path, data: OwnData, config: TTMConfig, results: Sequence[TTMResult]
) -> dict[str, Any]:
    """matchings.jsonl and .csv, model/ and summary.json; the summary comes last.

    Of several seeds, all but the spread of the metrics is that of the first.
    """
    result = results[0]
    assert result.run_dir is not None
    has_model = holds_files(out / MODEL)
    if has_model and jax.process_index() == 0:  # of an earlier command, or of somebody else
        check_model(result.model, out / MODEL)
    run = RunFolder(result.run_dir)
    lines = list(matching_lines(data.dataset, run, config.matching, data.folder))
    name = "caption" if config.matching == "global" else "matching"
    rows = run.metrics()
    summary = {
        "data": describe(data.dataset, config),
        "units": rows[-1]["units"],
        "tau_1": rows[1]["tau"],
        "selected": [row["selected"] for row in rows[1:]],
        "changed": sum(line[name] != line["before"] for line in lines),
        "unique": sum(line["unique"] for line in lines),
        "raw": result.raw_metrics,
        "final": result.metrics,
        "seed": result.seed,
    }
    if len(results) > 1:
        summary["seeds"] = summarise(results)
    if is_first():
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_text(out / "matchings.jsonl", text)
        write_text(out / "matchings.csv", as_csv(answer_rows(results, data.folder)))
        if not has_model:
            write_model(result.model, out / MODEL, read_one(result.run_dir))
        write_json(out / "summary.json", summary)
    return summary


def write_page_of(out: Path) -> Path:
    """The report page of what `ttm adapt` has written."""
    from ttm_jax.report.page.page import write_page
    from ttm_jax.report.run_data import read_experiments

    path = out / "report.html"
    if is_first():
        names = {source: name for name, source in MODELS.items()}
        write_page(read_experiments([out / RUN]), path, models=names)
    return path


def print_result(
    summary: dict[str, Any],
    results: Sequence[TTMResult],
    data: OwnData,
    out: Path,
    page: Path | None,
) -> None:
    """The answer: the pairs, what changed, what it is worth, and where everything is."""
    grouped = results[0].config.matching == "group"
    print_answer(answer_rows(results, data.folder), grouped=grouped)
    print("\n" + result_text(summary, out, page))


def result_text(summary: dict[str, Any], out: Path, page: Path | None = None) -> str:
    """What changed, what it is worth where the truth is known, and where everything is."""
    units, selected = summary["units"], summary["selected"]
    lines = [
        summary["data"],
        f"selected: {selected[0]} of {units} at first (tau_1 {summary['tau_1']:.4g}), "
        f"{selected[-1]} in the end",
        f"changed matchings: {summary['changed']} of {units}"
        + ("" if summary["unique"] == units else f"; tied: {units - summary['unique']}"),
    ]
    for name in _SHOWN:
        if name in summary["raw"]:
            old, new = summary["raw"][name], summary["final"][name]
            lines.append(
                f"{METRICS[name].label}: {old['percent']:.2f} ({old['count']}/{old['of']}) -> "
                f"{new['percent']:.2f} ({new['count']}/{new['of']}), chance {old['chance']:.2f}"
                + _over_seeds(summary, name)
            )
    names = f"matchings.csv, matchings.jsonl, {MODEL}/ (load_model or transformers), summary.json"
    lines.append(f"finished; {shown(out)}: {names}, {RUN}/")
    if page is not None:
        lines.append(f"a page to look at: {shown(page)}")
    return "\n".join(lines)


def _over_seeds(summary: dict[str, Any], name: str) -> str:
    """Mean and deviation, if there are several seeds."""
    if "seeds" not in summary:
        return ""
    found = summary["seeds"]["final"][name]
    seeds = len(summary["seeds"]["seeds"])
    return f"; over {seeds} seeds {found['mean']:.2f} ± {found['std']:.2f}"


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _size(count: int) -> str:
    return f"{count / 1e9:.2g} GB" if count >= 1e8 else f"{count / 1e6:.2g} MB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
