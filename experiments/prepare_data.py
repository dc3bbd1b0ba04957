"""Fetch the paper's benchmarks, or check what is on the disk.

    python -m experiments.prepare_data mmvp_vlm colorswap
    python -m experiments.prepare_data all --data-dir /big/disk
    python -m experiments.prepare_data whatsup --check

An interrupted download goes on where it stopped. docs/data.md says where everything comes from and
how to do it by hand.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli import run
from ttm_jax.data.benchmarks import BENCHMARKS, Benchmark, default_data_dir
from ttm_jax.data.download.options import Options
from ttm_jax.data.download.prepare import find_benchmarks, find_problems, prepare
from ttm_jax.data.download.sources import Sources
from ttm_jax.errors import InputError


@dataclass(frozen=True)
class Args:
    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME [NAME ...]")
    ] = ()
    """Benchmarks (`--list` shows them), `sugarcrepe` or `whatsup` for all of one, or `all`."""
    data_dir: Path = field(default_factory=default_data_dir)
    """Where the files go; the default is $TTM_JAX_DATA or ~/.cache/ttm_jax/data."""
    check: bool = False
    """Fetch nothing; compare what is there with the manifest and decode every image."""
    list: bool = False
    """Show the benchmarks and stop."""
    allow_changed: bool = False
    """Take files and counts that are not the published ones; results are then not comparable."""
    workers: int = 8
    """How many small files are fetched at once."""
    sources: Sources = field(default_factory=Sources)
    """Mirrors to fetch from."""


def main() -> None:
    args = tyro.cli(Args, prog="python -m experiments.prepare_data", description=__doc__)
    if args.list:
        for benchmark in BENCHMARKS.values():
            shape = "{}x{}".format(*benchmark.shape)
            print(f"{benchmark.name:24} {benchmark.groups:5} of {shape}  {benchmark.about}")
        return
    if not args.names:
        raise InputError("nothing to prepare; name benchmarks, or all, or see --list")
    options = Options(args.sources, args.allow_changed, args.workers)
    benchmarks = find_benchmarks(args.names)
    failed = []
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
            print(f"error: {error}", file=sys.stderr)
            failed.append(benchmark.name)
    if failed:
        raise InputError(f"not complete, see above: {', '.join(failed)}")


def _prepare(benchmark: Benchmark, root: Path, options: Options) -> None:
    ready = prepare(benchmark, root, options)
    came = f"{ready.fetched} files came" if ready.fetched else "already there"
    what = f"{ready.groups} groups, {ready.images} images"
    print(f"{benchmark.name}: {what} in {ready.folder} ({came})", flush=True)


def _check(benchmark: Benchmark, root: Path, options: Options) -> None:
    problems = find_problems(benchmark, root, options)
    for problem in problems:
        print(f"{benchmark.name}: {problem}")
    if problems:
        raise InputError(
            f"{benchmark.name}: {len(problems)} problems; delete the files that are named and "
            f"fetch them again: python -m experiments.prepare_data {benchmark.name}"
        )
    print(f"{benchmark.name}: as it was when it came, {benchmark.groups} groups", flush=True)


if __name__ == "__main__":
    run(main)
