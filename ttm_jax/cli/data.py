"""Download the paper's benchmarks and others, or check those on disk.

    ttm data mmvp_vlm colorswap bivlc
    ttm data paper --data-dir /big/disk
    ttm data whatsup --check

Rerun the same command to resume an interrupted download. docs/data.md lists the sources and
explains how to download by hand.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli.options import Switch, parse
from ttm_jax.data.benchmarks.catalogue import (
    BENCHMARKS,
    Benchmark,
    default_data_dir,
    load_benchmark,
)
from ttm_jax.data.benchmarks.facts import find_facts
from ttm_jax.data.download.options import Options
from ttm_jax.data.download.prepare import find_benchmarks, find_problems, prepare
from ttm_jax.data.download.sources import Sources
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Args:
    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="NAME [NAME ...]", help_behavior_hint="(default: a list of them)"),
    ] = ()
    """Benchmarks (`--list` shows them), a source such as `sugarcrepe` for all its variants, `paper`
    for the paper's, or `all`."""
    data_dir: Path = field(default_factory=default_data_dir)
    """Where the files go; $TTM_JAX_DATA changes the default."""
    check: Switch = False
    """Download nothing; compare the files with the manifest, decode every image, and report EXIF
    orientations and repeated images and captions."""
    list: Switch = False
    """List the benchmarks and exit."""
    allow_changed: Switch = False
    """Accept files and counts that differ from the published ones; results are not comparable."""
    workers: int = 8
    """How many small files to download at once."""
    sources: Sources = field(default_factory=Sources)
    """Mirrors to download from."""


def main(argv: Sequence[str]) -> None:
    args = parse(Args, argv, "ttm data", __doc__)
    if args.list or not args.names:
        for benchmark in BENCHMARKS.values():
            shape = "{}x{}".format(*benchmark.shape)
            groups = benchmark.groups or "?"
            name = benchmark.name + "*" * bool(benchmark.unverified)
            print(f"{name:28} {groups:>5} of {shape:4}  {benchmark.about}")
        if not args.list:
            print("\n* not verified against the publisher's own files: see docs/data.md")
            print("`ttm data NAME [NAME ...]` downloads benchmarks, `ttm data paper` the paper's")
        return
    options = Options(args.sources, args.allow_changed, args.workers)
    benchmarks = find_benchmarks(args.names)
    failed = []
    said: dict[tuple[str, str], str] = {}  # the variants of a source fail for the same reason
    for benchmark in benchmarks:
        try:
            if args.check:
                _check(benchmark, args.data_dir, options)
            else:
                _prepare(benchmark, args.data_dir, options)
        except InputError as error:
            if len(benchmarks) == 1:
                raise
            # one that is gated must not keep the others from coming
            name, why = benchmark.name, str(error.__cause__ or error)
            first = said.setdefault((benchmark.source, why.replace(benchmark.name, "")), name)
            text = f"{name}: the same as for {first}; `ttm data {name}` says it in full"
            print(f"error: {error if first == name else text}", file=sys.stderr)
            failed.append(name)
    if failed:
        raise InputError(f"not complete, see above: {', '.join(failed)}")


def _prepare(benchmark: Benchmark, root: Path, options: Options) -> None:
    ready = prepare(benchmark, root, options)
    came = f"{ready.fetched} files came" if ready.fetched else "already there"
    what = f"{ready.groups} groups, {ready.images} images"
    print(f"{benchmark.name}: {what} in {ready.folder} ({came})", flush=True)


def _check(benchmark: Benchmark, root: Path, options: Options) -> None:
    folder = root / benchmark.folder
    if not folder.is_dir():
        raise InputError(
            f"{benchmark.name}: {folder} does not exist; fetch it: ttm data {benchmark.name}"
        )
    problems = find_problems(benchmark, root, options)
    for problem in problems:
        print(f"{benchmark.name}: {problem}")
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InputError(
            f"{benchmark.name}: {count}; delete the files that are named and fetch them again: "
            f"ttm data {benchmark.name}"
        )
    loaded = load_benchmark(benchmark.name, root, check_counts=not options.allow_changed)
    print(f"{benchmark.name}: as it was when it came, {loaded.listed} groups", flush=True)
    for fact in find_facts(loaded.dataset).lines():
        print(f"{benchmark.name}: {fact}", flush=True)
