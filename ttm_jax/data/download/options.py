"""What the fetching functions share."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import DownloadError, Patience
from ttm_jax.data.download.progress import Progress, no_bar
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
    few = len(jobs) <= _FEW
    items = no_bar if few else options.progress.items(label)
    stop = threading.Event()

    def run(job: Job) -> None:
        bar = options.progress.bytes(job.target.name) if few else no_bar

        def watched(done: int, total: int | None) -> None:
            if stop.is_set():
                raise DownloadError("stopped, because another file failed")
            bar(done, total)

        fetch(
            job.url,
            job.target,
            checksum=job.checksum,
            headers=headers,
            bar=watched,
            patience=options.patience,
        )

    with ThreadPoolExecutor(max(1, min(options.workers, len(jobs))), "fetch") as pool:
        futures = [pool.submit(run, job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                items(done, len(jobs))
        except BaseException:  # Ctrl-C as well: files on the way stop at their next chunk
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return {job.target: job.url for job in jobs}
