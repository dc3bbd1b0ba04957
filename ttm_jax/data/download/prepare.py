"""Make a benchmark complete on the disk, or check that it is."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ttm_jax.data.benchmarks.catalogue import (
    BENCHMARKS,
    Benchmark,
    LoadedBenchmark,
    annotation_files,
    load_benchmark,
)
from ttm_jax.data.download.fetch import ChangedFile, disk_error, remove_lone_notes
from ttm_jax.data.download.fetchers import by_hand, fetch_benchmark, remove_unpacked
from ttm_jax.data.download.http import DownloadError
from ttm_jax.data.download.manifest import find_changes, is_recorded, record
from ttm_jax.data.download.options import Options
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.data.unreadable_images import BrokenImage, describe
from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point
from ttm_jax.files import remove_leftovers


@dataclass(frozen=True)
class Prepared:
    benchmark: Benchmark
    folder: Path
    groups: int
    images: int
    fetched: int
    """Files that just arrived."""


def find_benchmarks(names: Sequence[str]) -> list[Benchmark]:
    """What names mean: a benchmark, all of one source (`whatsup`), the `paper`'s, or `all`."""
    found: dict[str, Benchmark] = {}
    for name in names:
        fits = [b for b in BENCHMARKS.values() if name in (b.name, b.source, "all")]
        if name == "paper":
            fits = [b for b in BENCHMARKS.values() if b.in_paper]
        if not fits:
            sources = dict.fromkeys(b.source for b in BENCHMARKS.values())
            raise InputError(
                f"no benchmark is called {name!r}; there are all, paper, {', '.join(sources)}, and "
                "of some of them variants: ttm data --list"
            )
        found |= {benchmark.name: benchmark for benchmark in fits}
    return list(found.values())


def prepare(benchmark: Benchmark, root: Path, options: Options) -> Prepared:
    """Fetch what is missing, check it, and record it in the manifest.

    Files that were put there by hand count as well: what the loader accepts is not fetched.
    """
    folder = root / benchmark.folder
    try:
        with _only_one_at_a_time(folder):
            _remove_leftovers(folder)
            return _prepare(benchmark, root, options)
    except OSError as error:
        raise disk_error(folder / "file", error) from error


def _prepare(benchmark: Benchmark, root: Path, options: Options) -> Prepared:
    folder = root / benchmark.folder
    origins: dict[Path, str] = {}
    loaded = None
    try:
        loaded = load_benchmark(benchmark.name, root, check_counts=not options.allow_changed)
    except NotPrepared:
        origins = _fetch(benchmark, folder, options)
    if loaded is None or not is_recorded(folder, benchmark.name):
        loaded = _load_and_decode(benchmark, root, options)
        _refuse_broken(benchmark, loaded.skipped, origins)
    images = [Path(image) for image in loaded.dataset.images if isinstance(image, os.PathLike)]
    files = dict.fromkeys((*annotation_files(benchmark, root), *images))
    fault_point("benchmark fetched")
    record(folder, benchmark.name, files, origins, loaded.listed, benchmark.groups)
    remove_unpacked(benchmark, folder)
    return Prepared(
        benchmark, folder, len(loaded.dataset), len(loaded.dataset.images), len(origins)
    )


def find_problems(benchmark: Benchmark, root: Path, options: Options) -> list[str]:
    """Everything that is wrong with the files on the disk, one line each; decodes every image."""
    folder = root / benchmark.folder
    if not folder.is_dir():
        return [f"{folder} does not exist: nothing was prepared there"]
    problems = find_changes(folder)
    try:
        loaded = _load_and_decode(benchmark, root, options)
    except InputError as error:
        return [*problems, str(error)]
    return [*problems, *(str(image) for image in loaded.skipped)]


def _load_and_decode(benchmark: Benchmark, root: Path, options: Options) -> LoadedBenchmark:
    with options.progress as progress:
        return load_benchmark(
            benchmark.name,
            root,
            skip_broken=True,
            check_counts=not options.allow_changed,
            on_image=progress.items(f"{benchmark.name}: decoding"),
        )


def _fetch(benchmark: Benchmark, folder: Path, options: Options) -> dict[Path, str]:
    """Fetch; every failure says what a person can do."""
    try:
        with options.progress:
            return fetch_benchmark(benchmark, folder, options)
    except DownloadError as error:
        advice = f"by hand: {by_hand(benchmark, folder)}, and repeat the command"
        if isinstance(error, ChangedFile):
            advice = f"allow changed files to take it as it is, or {advice}"
        raise type(error)(f"{benchmark.name}: {error}; {advice}") from error


def _refuse_broken(
    benchmark: Benchmark, broken: Sequence[BrokenImage], origins: Mapping[Path, str]
) -> None:
    """Remove damaged files that just arrived, so that they are fetched again."""
    damaged = {image.image for image in broken} & {str(path) for path in origins}
    for name in damaged:
        Path(name).unlink(missing_ok=True)
    if broken:
        done = f"{len(damaged)} were removed" if damaged else "replace them"
        raise InputError(
            f"{benchmark.name}: images cannot be used: {describe(broken)}; {done}, "
            "repeat the command"
        )


def _remove_leftovers(folder: Path) -> None:
    """Whatever an earlier process left when it was killed, in all folders below."""
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        remove_leftovers(path)
        remove_lone_notes(path)


@contextmanager
def _only_one_at_a_time(folder: Path) -> Iterator[None]:
    """Two commands must not write to one folder. The lock ends with the process that holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise disk_error(folder, error) from error
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"another `ttm data` is running in {folder}; wait until it has finished"
            ) from error
        except (ImportError, OSError):
            pass  # no locks here: trust the user
        yield
