"""The benchmarks by name, with the counts that make a copy of them complete.

    loaded = load_benchmark("mmvp_vlm")          # from $TTM_JAX_DATA or ~/.cache/ttm_jax/data
    loaded.dataset                               # a GroupedDataset of 135 groups
    loaded.dataset.ungrouped()                   # its non-grouped variant: 270 images, 270 captions

`ttm data mmvp_vlm` puts the files there; docs/data.md has the details.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ttm_jax.data.benchmarks import colorswap, mmvp, sugarcrepe, whatsup, winoground
from ttm_jax.data.benchmarks.benchmark import Benchmark
from ttm_jax.data.benchmarks.of_the_paper import OF_THE_PAPER
from ttm_jax.data.benchmarks.others import OTHERS
from ttm_jax.data.benchmarks.parquet import find_test_files
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.data.unreadable_images import BrokenImage, OnImage, describe, find_broken
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import ImageFile, ImageSource, NamedBytes

Exif = Literal["on", "off", "as-published"]


# The paper's sixteen, then those that people use today.
BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark for benchmark in (*OF_THE_PAPER, *OTHERS)
}


@dataclass(frozen=True, eq=False)
class LoadedBenchmark:
    """A benchmark and what the summary of a run says about how it was loaded."""

    benchmark: Benchmark
    dataset: GroupedDataset
    listed: int
    """Groups that the annotation lists, including those that were skipped."""
    skipped: tuple[BrokenImage, ...]
    labels: Literal["published", "corrected"]
    """Whether known errors of the release were corrected; "published" where there are none."""
    exif: bool
    """Whether the EXIF orientation of the images is applied."""

    def summary(self) -> dict[str, Any]:
        """For JSON: names and counts, and every image because of which a group was left out."""
        return {
            "benchmark": self.benchmark.name,
            "groups": len(self.dataset),
            "groups_listed": self.listed,
            "groups_expected": self.benchmark.groups or None,  # where no number is published
            "labels": self.labels,
            "exif": "applied" if self.exif else "ignored",
            "skipped": [asdict(image) for image in self.skipped],
        }


def default_data_dir() -> Path:
    """$TTM_JAX_DATA, or `ttm_jax/data` in the user's cache ($XDG_CACHE_HOME or ~/.cache)."""
    if chosen := os.environ.get("TTM_JAX_DATA"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ttm_jax" / "data"


def find_benchmark(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark is called {name!r}; there are {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def load_benchmark(
    name: str,
    data_dir: str | Path | None = None,
    *,
    skip_broken: bool = False,
    whatsup_correction: bool = True,
    check_counts: bool = True,
    exif: Exif = "as-published",
    on_image: OnImage = lambda done, total: None,
) -> LoadedBenchmark:
    """Read one of the benchmarks from disk, where `ttm data` has put it.

    Args:
        name: One of `BENCHMARKS`, such as `"winoground"` or `"whatsup_a_left_right"`.
        data_dir: Where the files are; `$TTM_JAX_DATA` or the user's cache folder if None.
        skip_broken: Decode every image, leave out the groups with an unusable one, and list them in
            `skipped`. False stops at the first problem instead.
        whatsup_correction: Swap the two images that WhatsUp A mislabels, as the paper does.
        check_counts: Reject a copy with a different number of groups than was published, where an
            exact number was.
        exif: Whether the EXIF orientation of images is applied; "as-published" does what the
            paper's program does with this benchmark, or its authors' where it is not in the paper.
        on_image: Called with the number of images examined so far and the number of all images.

    Returns:
        The dataset, and what was skipped or corrected.

    Raises:
        InputError: There is no such benchmark, or the copy on disk is incomplete or different.

    Examples:
        >>> from ttm_jax import InputError, load_benchmark
        >>> try:
        ...     dataset = load_benchmark("mmvp_vlm", data_dir="empty").dataset
        ... except InputError as error:
        ...     print(error)  # doctest: +ELLIPSIS
        mmvp_vlm is not in empty; ...
    """
    benchmark = find_benchmark(name)
    upright = _applies_exif(benchmark, exif)
    root = default_data_dir() if data_dir is None else Path(data_dir).expanduser()
    prepare = f"`ttm data {name}`"
    if not (root / benchmark.folder).is_dir():
        raise NotPrepared(f"{name} is not in {root}; {prepare} fetches it")
    try:
        groups = read_groups(benchmark, root, whatsup_correction)
    except NotPrepared as error:
        raise NotPrepared(f"{name}: {error}; {prepare} fetches what is missing") from error
    groups = [_with_exif(group, upright) for group in groups]
    if check_counts and benchmark.groups and len(groups) != benchmark.groups:
        raise InputError(
            f"{name} in {root / benchmark.folder} lists {len(groups)} groups; published are "
            f"{benchmark.groups}: fetch it again with {prepare}, or allow other counts"
        )
    broken = find_broken(groups, skip_broken, on_image)
    if broken and not skip_broken:
        raise NotPrepared(
            f"{name}: {len({image.image for image in broken})} images cannot be used: "
            f"{describe(broken)}; {prepare} fetches what is missing, or skip the broken images "
            "with their groups"
        )
    out = {image.group for image in broken}
    kept = [group for group in groups if group.id not in out]
    if not kept:
        raise InputError(f"{name}: no group is left without its broken images: {describe(broken)}")
    correctable = benchmark.source == "whatsup" and whatsup.is_correctable(
        benchmark.part, benchmark.relations
    )
    corrected = correctable and whatsup_correction
    title = f"{name}_as_released" if correctable and not corrected else name
    if upright != benchmark.exif:  # other pixels: a run must not be mistaken for one of the paper's
        title += "_exif_on" if upright else "_exif_off"
    return LoadedBenchmark(
        benchmark=benchmark,
        dataset=GroupedDataset.from_groups(kept, name=title),
        listed=len(groups),
        skipped=tuple(broken),
        labels="corrected" if corrected else "published",
        exif=upright,
    )


def read_groups(benchmark: Benchmark, root: Path, whatsup_correction: bool = True) -> list[Group]:
    """The groups as the annotation lists them; the images are not looked at."""
    groups = _read(benchmark, root / benchmark.folder, whatsup_correction)
    _check_ids(benchmark, groups)
    return groups


def annotation_files(benchmark: Benchmark, root: Path) -> list[Path]:
    """The files that list the groups (and, for Parquet, hold the images)."""
    folder = root / benchmark.folder
    match benchmark.source:
        case "winoground":
            return winoground.annotation_files(folder)
        case "mmvp_vlm":
            return mmvp.annotation_files(folder)
        case "colorswap":
            return colorswap.annotation_files(folder)
        case "sugarcrepe":
            return sugarcrepe.annotation_files(folder, benchmark.subset)
        case "whatsup":
            return whatsup.annotation_files(folder, benchmark.part)
        case _:
            listed = [folder / name for name in benchmark.annotations]
            return listed or find_test_files(folder)


def _read(benchmark: Benchmark, folder: Path, corrected: bool) -> list[Group]:
    match benchmark.source:
        case "winoground":
            return winoground.read_groups(folder)
        case "mmvp_vlm":
            return mmvp.read_groups(folder)
        case "colorswap":
            return colorswap.read_groups(folder)
        case "sugarcrepe":
            return sugarcrepe.read_groups(folder, benchmark.subset)
        case "whatsup":
            if not benchmark.relations:
                return whatsup.read_single_images(folder, benchmark.part, corrected)
            first, second = benchmark.relations
            return whatsup.read_pairs(folder, benchmark.part, (first, second), corrected)
        case _:
            if benchmark.read is None:
                raise ValueError(f"{benchmark.name} has no reader")
            return benchmark.read(folder)


def _applies_exif(benchmark: Benchmark, choice: Exif) -> bool:
    choices = {"on": True, "off": False, "as-published": benchmark.exif}
    if choice not in choices:
        raise InputError(f"exif is {choice!r}; expected one of {', '.join(choices)}")
    return choices[choice]


def _with_exif(group: Group, applied: bool) -> Group:
    def image(source: ImageSource) -> ImageSource:
        if isinstance(source, NamedBytes | ImageFile):
            return source if source.exif == applied else replace(source, exif=applied)
        return ImageFile(source, applied) if isinstance(source, Path) else source

    return replace(group, images=tuple(image(source) for source in group.images))


def _check_ids(benchmark: Benchmark, groups: Sequence[Group]) -> None:
    if not groups:
        raise InputError(f"{benchmark.name}: the annotation lists no groups")
    identity, count = Counter(group.id for group in groups).most_common(1)[0]
    if count > 1:
        raise InputError(
            f"{benchmark.name}: group {identity!r} is listed {count} times; "
            "are files of two releases in one folder?"
        )
