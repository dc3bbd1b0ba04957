"""Several seeds of one experiment: one after another, or one a device at the same time."""

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from ttm_jax import run_pictures
from ttm_jax.config import TTMConfig
from ttm_jax.console import Console
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.files import write_json
from ttm_jax.trackers import Tracker
from ttm_jax.ttm import TTMResult, run_ttm


def run_seeds(
    model: Any,
    dataset: GroupedDataset,
    config: TTMConfig,
    seeds: Sequence[int],
    run_dir: str | Path | None = None,
    *,
    resume: bool = True,
    console: Console | None = None,
    one_per_device: bool = False,
    track: Callable[[Path | None, str], list[Tracker]] = lambda folder, name: [],
) -> list[TTMResult]:
    """A run a seed, in `run_dir/seed_N`, and a summary of all in `run_dir/summary.json`.

    `one_per_device` gives each seed a device of its own and runs them side by side; otherwise every
    seed has all devices. `track` opens the trackers of a seed (`ttm_jax.trackers.open_trackers`).
    """
    console = console or Console("quiet")
    folder = None if run_dir is None else Path(run_dir)

    def one(seed: int, devices: list | None) -> TTMResult:
        path = None if folder is None else folder / f"seed_{seed}"
        trackers = track(path, f"seed_{seed}")
        try:
            return run_ttm(
                model,
                dataset,
                config,
                path,
                seed,
                resume=resume,
                console=console if devices is None else Console("quiet"),
                trackers=trackers,
                devices=devices,
            )
        finally:
            for tracker in trackers:
                tracker.close()

    if folder is not None and jax.process_index() == 0:
        run_pictures.save(folder, dataset)  # once for all seeds
    if one_per_device:
        local = jax.local_devices()
        with ThreadPoolExecutor(min(len(local), len(seeds))) as pool:
            jobs = [pool.submit(one, seed, [local[i % len(local)]]) for i, seed in enumerate(seeds)]
            results = [job.result() for job in jobs]
    else:
        results = [one(seed, None) for seed in seeds]
    if folder is not None and jax.process_index() == 0:
        write_json(folder / "summary.json", summarise(results))
    return results


def summarise(results: Sequence[TTMResult]) -> dict[str, Any]:
    """Every metric before and after, with mean and sample standard deviation over the seeds."""
    return {
        "seeds": [result.seed for result in results],
        "std": "sample standard deviation over seeds (n - 1); null for one seed",
        "raw": results[0].raw_metrics,
        "final": {
            name: spread([result.metrics[name]["percent"] for result in results])
            for name in results[0].metrics
        },
    }


def spread(values: Sequence[float]) -> dict[str, Any]:
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "values": list(values),
    }
