"""What to fetch for each benchmark, and from where.

Every function fetches what is missing in the folder of its source and returns, for each file that
just arrived, where it is from. What is there already is left alone.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from ttm_jax.data.benchmarks import mmvp, sugarcrepe, whatsup
from ttm_jax.data.benchmarks.benchmark import Benchmark
from ttm_jax.data.download import by_plan
from ttm_jax.data.download.archive import unpack
from ttm_jax.data.download.by_plan import fetch_by_plan
from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.drive import fetch_from_drive, page_of
from ttm_jax.data.download.fetch import ChangedFile
from ttm_jax.data.download.from_hub import fetch_from_hub, is_test_parquet
from ttm_jax.data.download.options import Job, Options, fetch_all
from ttm_jax.data.download.sources import (
    COCO_ZIP_CHECKSUM,
    HUB_REPOS,
    SUGARCREPE_CHECKSUMS,
    SUGARCREPE_REPO,
    WHATSUP_ANNOTATIONS,
    WHATSUP_IMAGES,
    DriveFile,
)
from ttm_jax.data.groups import Group
from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point

COCO_ZIP = "val2017.zip"


def fetch_benchmark(benchmark: Benchmark, folder: Path, options: Options) -> dict[Path, str]:
    if not benchmark.in_paper:
        return fetch_by_plan(benchmark, folder, options)
    match benchmark.source:
        case "sugarcrepe":
            return _fetch_sugarcrepe(benchmark, folder, options)
        case "whatsup":
            return _fetch_whatsup(benchmark, folder, options)
        case _:
            return _fetch_from_hub(benchmark, folder, options)


def by_hand(benchmark: Benchmark, folder: Path) -> str:
    """What a person can do where the program cannot, and where the files go."""
    if not benchmark.in_paper:
        return by_plan.by_hand(benchmark, folder)
    match benchmark.source:
        case "sugarcrepe":
            page = f"https://github.com/{SUGARCREPE_REPO}/tree/main/data"
            return (
                f"put {benchmark.subset}.json of {page} into {folder}, and {COCO_ZIP} of "
                f"https://cocodataset.org/#download (or the folder {sugarcrepe.IMAGES}) beside it"
            )
        case "whatsup":
            files = (WHATSUP_ANNOTATIONS[benchmark.part], WHATSUP_IMAGES[benchmark.part])
            pages = " and ".join(f"{file.name} ({page_of(file.id)})" for file in files)
            return f"put {pages} into {folder}"
        case "mmvp_vlm":
            page = f"https://huggingface.co/datasets/{HUB_REPOS[benchmark.source]}"
            return f"put {mmvp.QUESTIONS} and the folder '{mmvp.IMAGES}' of {page} into {folder}"
        case _:
            page = f"https://huggingface.co/datasets/{HUB_REPOS[benchmark.source]}"
            return f"put data/test-*.parquet of {page} into {folder / 'data'}"


def _fetch_from_hub(benchmark: Benchmark, folder: Path, options: Options) -> dict[Path, str]:
    def target(path: PurePosixPath) -> Path | None:
        return folder / path if _is_wanted(benchmark, path) else None

    return fetch_from_hub(HUB_REPOS[benchmark.source], target, benchmark.name, options)


def _is_wanted(benchmark: Benchmark, path: PurePosixPath) -> bool:
    if benchmark.source == "mmvp_vlm":
        return path.name == mmvp.QUESTIONS or path.parts[0] == mmvp.IMAGES
    return is_test_parquet(path)


def _fetch_sugarcrepe(benchmark: Benchmark, folder: Path, options: Options) -> dict[Path, str]:
    subset, sources = benchmark.subset, options.sources
    (annotation,) = sugarcrepe.annotation_files(folder, subset)
    origins: dict[Path, str] = {}
    if not annotation.is_file():
        url = f"{sources.github.rstrip('/')}/{SUGARCREPE_REPO}/main/data/{subset}.json"
        checksum = options.known(SUGARCREPE_CHECKSUMS.get(subset))
        origins |= fetch_all([Job(url, annotation, checksum)], {}, options, annotation.name)
    missing = _missing_images(sugarcrepe.read_groups(folder, subset))
    if missing and (folder / COCO_ZIP).is_file():
        images = folder / sugarcrepe.IMAGES
        origins |= _unpack_images(folder / COCO_ZIP, images, COCO_ZIP_CHECKSUM, options)
        missing = [image for image in missing if not _is_there(image)]
    base = f"{sources.coco.rstrip('/')}/val2017"
    jobs = [Job(f"{base}/{quote(image.name)}", image) for image in missing]
    return origins | fetch_all(jobs, {}, options, "COCO images")


def _fetch_whatsup(benchmark: Benchmark, folder: Path, options: Options) -> dict[Path, str]:
    part = benchmark.part
    annotation, images = WHATSUP_ANNOTATIONS[part], WHATSUP_IMAGES[part]
    origins = _fetch_drive_file(annotation, folder, options)
    if not _missing_images(whatsup.read_single_images(folder, part)):
        return origins
    archive = folder / images.name
    fetched = _fetch_drive_file(images, folder, options)
    origins |= _unpack_images(archive, folder / whatsup.IMAGES[part], images.checksum, options)
    if fetched:  # an archive that was put there by hand stays
        archive.unlink()
    return origins


def _fetch_drive_file(file: DriveFile, folder: Path, options: Options) -> dict[Path, str]:
    target = folder / file.name
    if _is_there(target):
        return {}
    fetch_from_drive(
        options.sources.drive.rstrip("/"),
        file.id,
        target,
        checksum=options.known(file.checksum),
        bar=options.progress.bytes(file.name),
        patience=options.patience,
    )
    return {target: page_of(file.id)}


def _unpack_images(
    archive: Path, folder: Path, checksum: Checksum, options: Options
) -> dict[Path, str]:
    """Fill `folder` with what it lacks of the folder of the same name in the archive."""
    if options.known(checksum) is not None and not checksum.matches(archive):
        raise ChangedFile(f"{archive} is not the published file ({checksum})")
    fresh = _unpacked(archive)
    if not fresh.is_dir():  # else an earlier run stopped just after unpacking
        unpack(archive, fresh, bar=options.progress.items(f"unpacking {archive.name}"))
        fault_point("archive unpacked")
    inside = fresh / folder.name
    if not inside.is_dir():
        raise InputError(f"{archive} has no folder {folder.name}; is it another archive?")
    folder.mkdir(exist_ok=True)
    origins = {}
    for path in sorted(inside.iterdir()):
        target = folder / path.name
        if path.is_file() and not _is_there(target):
            os.replace(path, target)
            fault_point("image moved")
            origins[target] = archive.name
    fault_point("images moved")
    shutil.rmtree(fresh, ignore_errors=True)
    return origins


def remove_unpacked(benchmark: Benchmark, folder: Path) -> None:
    """What a process left of a folder that it had unpacked, when all images have their places."""
    known = {"whatsup": WHATSUP_IMAGES[benchmark.part].name, "sugarcrepe": COCO_ZIP}
    names = [known[benchmark.source]] if benchmark.source in known else []
    for name in (*names, *by_plan.archives(benchmark.source)):
        shutil.rmtree(_unpacked(folder / name), ignore_errors=True)


def _unpacked(archive: Path) -> Path:
    """Where an archive is unpacked, before its files get their places."""
    return archive.with_name(f"{archive.name}.unpacked")


def _missing_images(groups: Sequence[Group]) -> list[Path]:
    images = {image for group in groups for image in group.images if isinstance(image, Path)}
    return sorted(image for image in images if not _is_there(image))


def _is_there(path: Path) -> bool:
    """Whether a file came before; an empty one is the remains of something."""
    return path.is_file() and path.stat().st_size > 0
