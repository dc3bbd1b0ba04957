"""Files of a dataset on the Hugging Face hub, with a token where there is one."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ttm_jax.data.download import hub
from ttm_jax.data.download.fetch import ChangedFile
from ttm_jax.data.download.http import AccessDenied, DownloadError
from ttm_jax.data.download.options import Job, Options, fetch_all

Target = Callable[[PurePosixPath], Path | None]
"""Where a listed file goes, None if it is not wanted."""


def fetch_from_hub(repo: str, target: Target, label: str, options: Options) -> dict[Path, str]:
    """Fetch the wanted files that are not there in the size that the hub lists."""
    found = hub.find_token(options.sources.hub)
    # The hub refuses public files too when a token is no longer valid: then try without.
    for token in [found, None] if found else [None]:
        try:
            return _fetch(repo, target, token, label, options)
        except AccessDenied as error:
            refusal = error
        except ChangedFile as error:  # the hub itself gave the checksum: nothing to be allowed
            raise DownloadError(f"{error}: it was damaged on the way") from error
    have = "your token has no access to it, or is not valid" if found else "no token was found"
    raise AccessDenied(
        f"{repo} is gated ({have}): accept its terms at https://huggingface.co/datasets/{repo}, "
        "then set HF_TOKEN or run `hf auth login`, and repeat the command"
    ) from refusal


def is_test_parquet(path: PurePosixPath) -> bool:
    """`data/test-00000-of-00002.parquet`, or the hub's copy `default/test/0000.parquet`."""
    is_test = path.name.startswith("test") or path.parent.name == "test"
    return path.suffix == ".parquet" and is_test


def _fetch(
    repo: str, target: Target, token: str | None, label: str, options: Options
) -> dict[Path, str]:
    jobs = [
        Job(file.url, path, file.checksum, file.bytes)
        for file, path in _wanted(repo, target, token, options)
        if not (path.is_file() and path.stat().st_size == file.bytes)
    ]
    return fetch_all(jobs, hub.authorization(token), options, label)


def _wanted(
    repo: str, target: Target, token: str | None, options: Options
) -> list[tuple[hub.HubFile, Path]]:
    """The authors' files, or of the hub's conversion of them to Parquet."""
    endpoint = options.sources.hub.rstrip("/")
    for revision in ("main", "refs/convert/parquet"):
        listed = hub.list_files(endpoint, repo, token, options.patience, revision)
        found = [(file, target(PurePosixPath(file.path))) for file in listed]
        wanted = [(file, path) for file, path in found if path is not None]
        if wanted:
            return wanted
    raise DownloadError(f"{endpoint}/datasets/{repo} has none of the files that are expected there")
