"""What the fetching functions share."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import Patience
from ttm_jax.data.download.progress import Bar, Progress, no_bar
from ttm_jax.data.download.sources import Sources

_FEW = 4  # files that get a bar of their own


@dataclass(frozen=True)
class Options:
    sources: Sources = field(default_factory=Sources)
    allow_changed: bool = False
    """Take files and counts that differ from the published ones."""
    workers: int = 8
    """How many small files are fetched at once."""
    patience: Patience = field(default_factory=Patience)
    progress: Progress = field(default_factory=Progress)

    def known(self, checksum: Checksum | None) -> Checksum | None:
        """A checksum that we know from before, if it is to be insisted on."""
        return None if self.allow_changed else checksum


@dataclass(frozen=True)
class Job:
    """A file that is to come from a URL."""

    url: str
    target: Path
    checksum: Checksum | None = None


def fetch_all(
    jobs: Sequence[Job], headers: dict[str, str], options: Options, label: str
) -> dict[Path, str]:
    """Fetch a few large or many small files; the origin of each. The first error stops the rest."""
    if not jobs:
        return {}
    few = len(jobs) <= _FEW
    items = no_bar if few else options.progress.items(label)
    done = 0

    def run(job: Job) -> None:
        bar: Bar = options.progress.bytes(job.target.name) if few else no_bar
        fetch(
            job.url,
            job.target,
            checksum=job.checksum,
            headers=headers,
            bar=bar,
            patience=options.patience,
        )

    items(0, len(jobs))
    pool = ThreadPoolExecutor(max(1, min(options.workers, len(jobs))), "fetch")
    try:
        for _ in pool.map(run, jobs):
            done += 1
            items(done, len(jobs))
    finally:
        pool.shutdown(cancel_futures=True)
    return {job.target: job.url for job in jobs}
