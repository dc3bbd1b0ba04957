"""Fetching what a plan says: annotations first, then the pictures that they list and that lack.

What is there already is left alone. The result is, for each file that just arrived, where from.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from ttm_jax.data.benchmarks.benchmark import Benchmark
from ttm_jax.data.download.archive import unpack
from ttm_jax.data.download.drive import fetch_from_drive, page_of
from ttm_jax.data.download.from_hub import fetch_from_hub, is_test_parquet
from ttm_jax.data.download.http import DownloadError
from ttm_jax.data.download.options import Job, Options, fetch_all
from ttm_jax.data.download.plans import (
    CHECKSUMS,
    PLANS,
    ByHand,
    Drive,
    HubArchive,
    HubFolder,
    HubParquet,
    Place,
    Web,
)
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.fault_points import fault_point
from ttm_jax.files import file_problem


def fetch_by_plan(benchmark: Benchmark, folder: Path, options: Options) -> dict[Path, str]:
    """Bring what is missing; `ByHand` says in one line what to put where."""
    plan = PLANS[benchmark.source]
    wanted = [folder / name for name in benchmark.annotations]
    lacking = [path for path in wanted if file_problem(path) is not None]
    origins: dict[Path, str] = {}
    if lacking or not wanted:
        origins |= _bring(plan.annotations, lacking, benchmark, folder, options)
    if plan.images is None or benchmark.read is None:
        return origins
    try:
        groups = benchmark.read(folder)
    except NotPrepared as error:
        if isinstance(plan.images, ByHand):
            raise _by_hand(benchmark, plan.images, folder, str(error)) from error
        raise
    images = {
        Path(image)
        for group in groups
        for image in group.images
        if isinstance(image, os.PathLike) and file_problem(image) is not None
    }
    return origins | _bring(plan.images, sorted(images), benchmark, folder, options)


def by_hand(benchmark: Benchmark, folder: Path) -> str:
    """What a person can do where the program cannot, and where the files go."""
    plan = PLANS[benchmark.source]
    files = ", ".join(benchmark.annotations) or "data/test-*.parquet"
    what = [f"put {files} of {_page(plan.annotations)} into {folder}"]
    if isinstance(plan.images, ByHand):
        what.append(plan.images.what)
    elif plan.images is not None:
        what.append(f"the pictures are at {_page(plan.images)}")
    return "; ".join(what)


def archives(source: str) -> list[str]:
    """The archives that are unpacked for this source."""
    plan = PLANS.get(source)
    places = [plan.annotations, plan.images] if plan else []
    found = [place.archive for place in places if isinstance(place, Drive)]
    found += [place.name for place in places if isinstance(place, HubArchive)]
    return [name for name in found if name]


def _bring(
    place: Place, missing: Sequence[Path], benchmark: Benchmark, folder: Path, options: Options
) -> dict[Path, str]:
    if not missing and not isinstance(place, HubParquet):
        return {}
    match place:
        case HubParquet(repo):
            return fetch_from_hub(
                repo, lambda path: folder / path if is_test_parquet(path) else None, benchmark.name,
                options,
            )  # fmt: skip
        case HubFolder(repo, inside):
            by_name = {f"{inside}/{path.name}": path for path in missing}
            return fetch_from_hub(
                repo, lambda path: by_name.get(str(path)), benchmark.name, options
            )
        case HubArchive(repo, name):
            target = folder / name
            found: dict[Path, str] = {}
            if not target.is_file():
                found = fetch_from_hub(
                    repo, lambda path: target if str(path) == name else None, name, options
                )
            return _unpacked(target, folder, missing, bool(found), options)
        case Drive(ids, archive):
            return _from_drive(ids, archive, missing, folder, options)
        case Web():
            jobs = [
                Job(
                    _address(place, path, folder, options),
                    path,
                    options.known(CHECKSUMS.get(path.relative_to(folder).as_posix())),
                )
                for path in missing
            ]
            return fetch_all(jobs, {}, options, benchmark.name)
        case ByHand():
            raise _by_hand(benchmark, place, folder, f"{len(missing)} are missing: {missing[0]}")


def _by_hand(benchmark: Benchmark, place: ByHand, folder: Path, what: str) -> NotPrepared:
    return NotPrepared(
        f"{benchmark.name}: {place.what}, all in {folder}, and repeat the command; {what}"
    )


def _address(place: Web, path: Path, folder: Path, options: Options) -> str:
    base = getattr(options.sources, place.site).rstrip("/")
    name = path.relative_to(folder).as_posix() if place.keeps_folders else path.name
    return "/".join(part for part in (base, place.path, quote(name)) if part)


def _from_drive(
    ids: dict[str, str], archive: str, missing: Sequence[Path], folder: Path, options: Options
) -> dict[Path, str]:
    origins = {}
    names = [archive] if archive else [path.name for path in missing]
    for target in (folder / name for name in names):
        if file_problem(target) is not None:
            fetch_from_drive(
                options.sources.drive.rstrip("/"),
                ids[target.name],
                target,
                bar=options.progress.bytes(target.name),
                patience=options.patience,
            )
            origins[target] = page_of(ids[target.name])
    if not archive:
        return origins
    return _unpacked(folder / archive, folder, missing, bool(origins), options)


def _unpacked(
    archive: Path, folder: Path, missing: Sequence[Path], came: bool, options: Options
) -> dict[Path, str]:
    """Put everything of an archive into the folder, from where in it the missing files are."""
    fresh = archive.with_name(f"{archive.name}.unpacked")
    if not fresh.is_dir():  # else an earlier run stopped just after unpacking
        unpack(archive, fresh, bar=options.progress.items(f"unpacking {archive.name}"))
        fault_point("archive unpacked")
    example = missing[0].relative_to(folder)
    inside = next((top for top in _tops(fresh) if (top / example).is_file()), None)
    if inside is None:
        raise DownloadError(f"{archive} has no {example.as_posix()}; is it another archive?")
    origins = {}
    for path in sorted(path for path in inside.rglob("*") if path.is_file()):
        target = folder / path.relative_to(inside)
        if file_problem(target) is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
            origins[target] = archive.name
    shutil.rmtree(fresh, ignore_errors=True)
    if came:  # an archive that was put there by hand stays
        archive.unlink()
    return origins


def _tops(fresh: Path) -> Iterator[Path]:
    """What may be meant by the archive's own folder: itself, or a folder in it."""
    yield fresh
    yield from sorted(path for path in fresh.iterdir() if path.is_dir())


def _page(place: Place) -> str:
    match place:
        case HubParquet(repo) | HubFolder(repo, _) | HubArchive(repo, _):
            return f"https://huggingface.co/datasets/{repo}"
        case Web("github", path):
            return f"https://raw.githubusercontent.com/{path}"
        case Web("coco", _):
            return "https://cocodataset.org/#download"
        case Web(_, path):
            return f"https://storage.googleapis.com/{path}"
        case Drive(ids, _):
            return " and ".join(f"{name} ({page_of(id)})" for name, id in ids.items())
        case ByHand(what):
            return what
