"""What the fetching functions share."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import DownloadError, Patience, hang_up
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
        """A checksum that was known beforehand, if changed files are not allowed."""
        return None if self.allow_changed else checksum


@dataclass(frozen=True)
class Job:
    """A file to fetch from a URL. `size` is the number of bytes that a listing gives."""

    url: str
    target: Path
    checksum: Checksum | None = None
    size: int | None = None


def fetch_all(
    jobs: Sequence[Job], headers: dict[str, str], options: Options, label: str
) -> dict[Path, str]:
    """Fetch a few large or many small files; the origin of each. The first error stops the rest."""
    few = len(jobs) <= _FEW
    items = no_bar if few else options.progress.items(label)
    stop = threading.Event()
    patience = replace(options.patience, stop=stop)

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
            size=job.size,
            headers=headers,
            bar=watched,
            patience=patience,
        )

    with ThreadPoolExecutor(max(1, min(options.workers, len(jobs))), "fetch") as pool:
        futures = [pool.submit(run, job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                items(done, len(jobs))
        except BaseException:  # Ctrl-C as well
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _end(futures)
            raise
    return {job.target: job.url for job in jobs}


def _end(futures: Sequence[Future[None]]) -> None:
    """Wait for files on the way. They stop at their next chunk; none may wait for a dead server."""
    while on_the_way := [future for future in futures if not future.done()]:
        hang_up()
        wait(on_the_way, timeout=0.1)
