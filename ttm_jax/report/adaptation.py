"""What a user sees of a run on their own data: before it, and after it."""

import json
from pathlib import Path
from typing import Any

import jax

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.estimate import Estimate
from ttm_jax.files import write_json, write_text
from ttm_jax.report.matchings import matching_lines
from ttm_jax.runlog import RunFolder
from ttm_jax.ttm import TTMResult

_METRICS = {"group_score": "GroupScore", "group_match": "GroupMatch", "global_match": "assignment"}


def outlook_text(dataset: GroupedDataset, model: str, config: TTMConfig, found: Estimate) -> str:
    """What `--dry-run` prints."""
    unit = "pairs" if config.matching == "global" else "groups"
    share = f"{config.first_coverage:.0%} of the {unit} at first"
    if found.sampled < found.units and config.tau_unit != "fraction":
        share += f" (from {found.sampled} of {found.units})"
    devices = jax.devices()
    steps = _range(str(found.least_steps), str(found.most_steps))
    duration = _range(*(_duration(found.seconds(n)) for n in (found.least_steps, found.most_steps)))
    counted = "" if found.activations_counted else " (without activations)"
    lines = [
        describe(dataset, config),
        f"model: {model}, {found.parameters / 1e6:.1f} M parameters, "
        f"{len(devices)} x {devices[0].device_kind}",
        f"settings: {config.iterations} iterations of {config.epochs} epochs, {found.batch} {unit} "
        f"a batch, lr {config.lr:g}, {config.schedule} thresholds",
        f"tau_1: {found.taus[0]:.4g}, which selects {share}; tau_T: {found.taus[-1]:.4g}",
        f"memory: about {_size(found.step_bytes)} for a step{counted} and "
        f"{_size(found.data_bytes)} for the data; there are {_size(found.available_bytes)}",
        f"disk: about {_size(found.disk_bytes)} for checkpoints and the adapted model",
        f"time: {found.step_seconds:.2g} s a step, {found.score_seconds:.2g} s to score all; "
        f"{steps} steps, so {duration}, and compiling",
        "nothing was written",
    ]
    return "\n".join(lines)


def describe(dataset: GroupedDataset, config: TTMConfig) -> str:
    """Counts and shapes in one line."""
    truth = "known" if dataset.has_truth else "unknown"
    images, captions = len(dataset.images), len(dataset.captions)
    if config.matching == "global":
        block = dataset.ungrouped().blocks[0]
        rows, columns = block.shape
        return f"{dataset.name}: {rows} images and {columns} captions without groups, truth {truth}"
    shapes = ", ".join(f"{len(b)} of {b.shape[0]}x{b.shape[1]}" for b in dataset.blocks)
    return (
        f"{dataset.name}: {len(dataset)} groups ({shapes}), {images} images and "
        f"{captions} captions in all, truth {truth}"
    )


def write_results(
    out: Path, data: Path, dataset: GroupedDataset, config: TTMConfig, result: TTMResult
) -> dict[str, Any]:
    """matchings.jsonl, model/ and summary.json; the summary comes last, when all is there."""
    assert result.run_dir is not None
    run = RunFolder(result.run_dir)
    lines = list(matching_lines(dataset, run, config.matching, data))
    name = "caption" if config.matching == "global" else "matching"
    rows = run.metrics()
    summary = {
        "data": describe(dataset, config),
        "units": rows[-1]["units"],
        "tau_1": rows[1]["tau"],
        "selected": [row["selected"] for row in rows[1:]],
        "changed": sum(line[name] != line["before"] for line in lines),
        "unique": sum(line["unique"] for line in lines),
        "raw": result.raw_metrics,
        "final": result.metrics,
        "seed": result.seed,
    }
    if jax.process_index() == 0:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_text(out / "matchings.jsonl", text)
        # It appears whole or not at all, and the run is the same: what is there is right.
        if not (out / "model").exists():
            result.model.save(out / "model")
        write_json(out / "summary.json", summary)
    return summary


def result_text(summary: dict[str, Any], out: Path) -> str:
    """What changed, what it is worth where the truth is known, and where everything is."""
    units, selected = summary["units"], summary["selected"]
    lines = [
        summary["data"],
        f"selected: {selected[0]} of {units} at first (tau_1 {summary['tau_1']:.4g}), "
        f"{selected[-1]} in the end",
        f"matched otherwise than at first: {summary['changed']} of {units}"
        + ("" if summary["unique"] == units else f"; tied: {units - summary['unique']}"),
    ]
    for name, title in _METRICS.items():
        if name in summary["raw"]:
            old, new = summary["raw"][name], summary["final"][name]
            lines.append(
                f"{title}: {old['percent']:.2f} ({old['count']}/{old['of']}) -> "
                f"{new['percent']:.2f} ({new['count']}/{new['of']}), chance {old['chance']:.2f}"
            )
    lines.append(f"{out}: matchings.jsonl, model/ (load_model or transformers), summary.json, run/")
    return "\n".join(lines)


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _size(count: int) -> str:
    return f"{count / 1e9:.2g} GB" if count >= 1e8 else f"{count / 1e6:.2g} MB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
