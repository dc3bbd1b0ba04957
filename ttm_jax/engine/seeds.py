"""Several seeds of one experiment, sequentially or in parallel with one device per seed."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jax

from ttm_jax.config import TTMConfig, check_seeds
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.model import Model
from ttm_jax.engine.result import TTMResult
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError
from ttm_jax.files import write_json
from ttm_jax.hosts import this_host
from ttm_jax.hosts.shared_folder import share
from ttm_jax.matching.mean_over_seeds import spread
from ttm_jax.runs.console import Console, default_console
from ttm_jax.runs.pictures import save_pictures
from ttm_jax.runs.trackers import Tracker


def run_seeds(
    model: Model,
    dataset: GroupedDataset,
    config: TTMConfig,
    seeds: Sequence[int],
    run_dir: str | Path | None = None,
    *,
    resume: bool = True,
    console: Console | None = None,
    one_per_device: bool = False,
    one_per_host: bool = False,
    donate: bool = False,
    keep_models: Literal["all", "first", "none"] = "all",
    profile: int = 0,
    track: Callable[[Path | None, str], list[Tracker]] = lambda folder, name: [],
) -> list[TTMResult]:
    """Run Test-Time Matching once per seed.

    Args:
        model: The model to adapt; see `run_ttm`.
        dataset: The groups to adapt it to.
        config: All settings, the same for every seed.
        seeds: One run per seed. A seed determines the order of the batches and the random crops.
        run_dir: Each run is written to `run_dir/seed_N`, and a summary of all of them to
            `run_dir/summary.json`. None writes nothing.
        resume: Resume runs that were interrupted; False rejects a folder that contains a run.
        console: Where progress is shown; None as for `run_ttm`.
        one_per_device: Give each seed its own device and run them in parallel. Otherwise, every
            seed uses all devices. Seeds go to the hosts in turn.
        one_per_host: Give each seed one host with all its devices, and run them in parallel.
        donate: Let the run of the last seed take the memory of `model`, which has no parameters
            afterwards. Without effect on seeds that run in parallel.
        keep_models: Which results hold their adapted model. The `model` of the others is None;
            with a `run_dir`, `load_model` reads it from there.
        profile: Trace about this many training steps of the first seed; see `run_ttm`.
        track: Opens the trackers of a seed, given its folder and name; for example
            `ttm_jax.runs.trackers.open_trackers`, with the trackers that you want.

    Returns:
        One `TTMResult` per seed, in the order of `seeds`.

    Raises:
        InputError: A seed is out of range or given twice, several hosts have no folder to share
            their results in, or see `run_ttm`.

    Examples:
        >>> import ttm_jax
        >>> from ttm_jax.data import world
        >>> model = ttm_jax.load_model("small-siglip")
        >>> dataset = world.make("color_swap", groups=6)
        >>> config = ttm_jax.TTMConfig(lr=2e-4, iterations=1, epochs=1)
        >>> results = ttm_jax.run_seeds(model, dataset, config, seeds=[0, 1])
        >>> [result.seed for result in results]
        [0, 1]
    """
    check_seeds(*seeds)
    if console is None:
        with default_console() as own:
            return run_seeds(
                model, dataset, config, seeds, run_dir,
                resume=resume, console=own, one_per_device=one_per_device,
                one_per_host=one_per_host, donate=donate, keep_models=keep_models,
                profile=profile, track=track,
            )  # fmt: skip
    folder = None if run_dir is None else Path(run_dir)

    def one(seed: int, devices: list | None, last: bool = False) -> TTMResult:
        path = None if folder is None else folder / f"seed_{seed}"
        trackers = track(path, f"seed_{seed}")
        try:
            result = run_ttm(
                model,
                dataset,
                config,
                path,
                seed,
                resume=resume,
                console=console if devices is None else Console("quiet"),
                trackers=trackers,
                devices=devices,
                donate=donate and last,
                profile=profile if seed == seeds[0] else 0,
            )
        finally:
            for tracker in trackers:
                tracker.close()
        kept = keep_models == "all" or (keep_models == "first" and seed == seeds[0])
        return result if kept else replace(result, model=None)

    if folder is not None and this_host.is_first():
        save_pictures(folder, dataset)  # once for all seeds
    if one_per_device and one_per_host:
        raise InputError("give one of one_per_device and one_per_host, not both")
    if one_per_device or (one_per_host and this_host.count() > 1):
        results = _side_by_side(one, seeds, folder, whole_hosts=one_per_host)
    else:
        results = [one(seed, None, last=seed == seeds[-1]) for seed in seeds]
    if folder is not None and this_host.is_first():
        write_json(folder / "summary.json", summarise(results))
    return results


def _side_by_side(
    one: Callable[[int, list | None], TTMResult],
    seeds: Sequence[int],
    folder: Path | None,
    *,
    whole_hosts: bool,
) -> list[TTMResult]:
    """Every host runs its seeds by itself, then reads those of the others from their folders."""
    hosts, here = this_host.count(), jax.process_index()
    if hosts > 1 and folder is None:
        raise InputError("seeds side by side on several hosts need a run folder, to share results")
    local = jax.local_devices()
    places = [local] if whole_hosts else [[device] for device in local]
    results: dict[int, TTMResult] = {}

    def run(number: int, *, writes: bool = True) -> None:
        with this_host.alone(writes=writes) if hosts > 1 else nullcontext():
            results[number] = one(seeds[number], places[number // hosts % len(places)])

    mine = [number for number in range(len(seeds)) if hosts == 1 or number % hosts == here]
    with ThreadPoolExecutor(len(places)) as pool:
        for job in [pool.submit(run, number) for number in mine]:
            job.result()
    share()
    for number in sorted(set(range(len(seeds))) - set(mine)):
        run(number, writes=False)
    return [results[number] for number in range(len(seeds))]


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
