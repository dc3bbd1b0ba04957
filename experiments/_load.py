"""The data and the model of an arm: the paper's, or with `--small` their stand-ins."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.experiments import Arm
from configs.world import SMALL_MODELS, WORLD
from experiments._flags import Flags
from ttm_jax.data.benchmarks.catalogue import (
    LoadedBenchmark,
    default_data_dir,
    find_benchmark,
    load_benchmark,
)
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.data.paper.models import MODELS
from ttm_jax.small.settings import GROUPS

SMALL_VLM = Path("runs/small_vlm")


@dataclass(frozen=True, eq=False)
class Data:
    dataset: GroupedDataset
    facts: dict[str, Any]
    """For the summary: counts, label correction, groups that were skipped."""
    comparable: bool
    """Whether it is the whole benchmark, with the paper's labels."""


def load_data(arm: Arm, flags: Flags, correction: bool = True) -> Data:
    """Read the benchmark, fetching it first if it is missing; or draw the world's groups."""
    if flags.small:
        stand_in = WORLD[arm.preset.dataset]
        from ttm_jax.data import world

        groups = GROUPS if flags.limit is None else min(flags.limit, GROUPS)
        dataset = world.make(stand_in.variant, groups, stand_in.seed)
        return Data(dataset, {"benchmark": dataset.name, "groups": len(dataset)}, False)
    loaded = load_or_fetch(arm.preset.dataset, flags, correction)
    facts, dataset = loaded.summary(), loaded.dataset
    if flags.limit is not None:
        dataset = dataset.limit(flags.limit)
        facts |= {"limit": flags.limit, "groups": len(dataset)}
    as_paper = correction and not loaded.skipped and len(dataset) == loaded.benchmark.groups
    return Data(dataset, facts, as_paper)


def read_benchmark(name: str, flags: Flags, correction: bool = True) -> LoadedBenchmark:
    """The benchmark on disk, with what the flags say about it: the one place that loads one."""
    return load_benchmark(
        name,
        flags.data_dir,
        skip_broken=flags.skip_broken,
        whatsup_correction=correction,
        exif=flags.exif,
    )


def load_or_fetch(name: str, flags: Flags, correction: bool = True) -> LoadedBenchmark:
    """The benchmark, downloaded first if it is missing and `--no-fetch` was not given."""
    try:
        return read_benchmark(name, flags, correction)
    except NotPrepared:
        if not flags.fetch:
            raise
    from ttm_jax.data.download.options import Options
    from ttm_jax.data.download.prepare import prepare

    root = default_data_dir() if flags.data_dir is None else flags.data_dir.expanduser()
    print(f"{name}: fetching what is missing into {root}", file=sys.stderr, flush=True)
    prepare(find_benchmark(name), root, Options())
    return read_benchmark(name, flags, correction)


def model_source(arm: Arm, flags: Flags) -> str:
    """The argument for `load_model` below."""
    if flags.model is not None:
        return flags.model
    return (SMALL_MODELS if flags.small else MODELS)[arm.preset.model]


def load_model(source: str) -> Any:
    """The model; the small generative one is made first if it does not exist yet."""
    from ttm_jax import load

    if source == "small-vlm":
        return load.load_model(_made_vlm())
    return load.load_model(source)


def _made_vlm() -> Path:
    """The first host makes it; the others find it there, or make their own."""
    from ttm_jax.hosts import this_host
    from ttm_jax.hosts.exchange import wait_for_all

    if not this_host.is_first():
        wait_for_all()
    with this_host.alone():
        folder = _make_vlm()
    if this_host.is_first():
        wait_for_all()
    return folder


def _make_vlm() -> Path:
    from ttm_jax.runs.console import Console
    from ttm_jax.small.vlm import RECIPE, small_vlm

    with Console() as console:
        if not SMALL_VLM.exists():
            console.say(f"making the small SmolVLM in {SMALL_VLM}, once: a few minutes")
        console.begin("small SmolVLM")
        return small_vlm(SMALL_VLM, on_step=lambda step, loss: console.progress(step, RECIPE.steps))
