"""From what a user names to a local path: the Hugging Face hub, and files behind URLs."""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from ttm_jax.errors import InputError

# Nothing that would have to be unpickled, and nothing of other frameworks, is downloaded.
_NEEDED = ["*.json", "model*.safetensors", "spiece.model", "tokenizer.model", "*.txt", "*.npz"]
_NOT_NEEDED = ["*/*"]  # copies for other runtimes live in subfolders
_REPO_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_FILE_SUFFIXES = (".npz", ".safetensors", ".json", ".bin")


def resolve(source: str, *, revision: str | None = None, offline: bool | None = None) -> Path:
    """A local path for a local path, a URL of an npz file, or the id of a model on the hub.

    From the hub come a folder, or the npz file where that is all that the repository has.
    `revision` pins a branch, tag or commit. `offline` (or HF_HUB_OFFLINE=1) uses only what was
    downloaded before. HF_TOKEN, or a login by `hf auth login`, opens gated models.
    """
    if not source:
        raise InputError("no model was named: give a hub id or a path")
    if "://" in source:
        return fetch(source)
    path = Path(source).expanduser()
    if path.exists():
        return path
    if _looks_like_a_path(source):
        raise InputError(f"{source} does not exist (it is taken for a path, not for a hub id)")
    folder = _download(source, revision, bool(offline))
    names = sorted(path.name for path in folder.glob("*"))
    arrays = [name for name in names if name.endswith(".npz")]
    if "config.json" not in names and len(arrays) == 1:
        return folder / arrays[0]
    if not any(name.endswith(".safetensors") for name in names):
        raise InputError(_no_weights(source, revision, bool(offline)))
    return folder


def fetch(url: str) -> Path:
    """Download a file once through fsspec; later calls find it in the cache."""
    try:
        import fsspec

        filesystem, remote = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # no driver, or no such protocol
        raise InputError(f"{url} cannot be opened ({_line(error)}); {_by_hand(url)}") from error
    try:
        version = hashlib.sha256(f"{url} {filesystem.ukey(remote)}".encode()).hexdigest()[:16]
        path = cache_folder() / "downloads" / version / Path(remote).name
        if not path.exists():
            _copy_here(filesystem, remote, path)
    except FileNotFoundError as error:
        raise InputError(f"{url} does not exist") from error
    except Exception as error:  # every driver has errors of its own
        raise InputError(f"{url} cannot be downloaded ({_line(error)}); {_by_hand(url)}") from error
    return path


def _copy_here(filesystem: Any, remote: str, path: Path) -> None:
    from fsspec.callbacks import TqdmCallback

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{uuid4().hex[:8]}")
    bar = {"desc": path.name, "unit": "B", "unit_scale": True}
    try:
        with TqdmCallback(tqdm_kwargs=bar) as progress:
            filesystem.get_file(remote, str(temporary), callback=progress)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where downloads from URLs are kept: $XDG_CACHE_HOME/ttm_jax, by default ~/.cache/ttm_jax."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ttm_jax"


def _looks_like_a_path(source: str) -> bool:
    return not _REPO_ID.fullmatch(source) or source.lower().endswith(_FILE_SUFFIXES)


def _download(repo: str, revision: str | None, offline: bool) -> Path:
    """The files that we need of a model, with huggingface_hub's own progress bars and cache."""
    from huggingface_hub import errors, snapshot_download

    # The bases of hub errors are OSError and the error of the HTTP library that it uses.
    other: tuple[type[Exception], ...] = (
        *errors.HfHubHTTPError.__bases__,
        errors.HFValidationError,
    )
    named = f"{repo} at revision {revision}" if revision else repo
    try:
        folder = snapshot_download(
            repo,
            revision=revision,
            allow_patterns=_NEEDED,
            ignore_patterns=_NOT_NEEDED,
            local_files_only=offline,
        )
    except errors.GatedRepoError as error:
        raise InputError(
            f"{repo} is gated: accept its terms at https://huggingface.co/{repo}, then set "
            "HF_TOKEN or run `hf auth login`"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"the hub has {repo}, but not its revision {revision}") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"{repo} is neither a path here nor a model on the Hugging Face hub; if it is "
            "private, set HF_TOKEN"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        if offline or _offline_by_environment():
            raise InputError(
                f"{named} is not a path here and was not downloaded before, and offline mode is "
                "on; run once with a network and without HF_HUB_OFFLINE"
            ) from error
        raise InputError(
            f"{named} is not a path here and the Hugging Face hub cannot be reached "
            f"({_line(error)}); check the network, or give the path of a folder"
        ) from error
    except other as error:
        raise InputError(f"{named} cannot be downloaded: {_line(error)}") from error
    return Path(folder)


def _offline_by_environment() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _no_weights(repo: str, revision: str | None, offline: bool) -> str:
    """Why a repository cannot be used, and the hub's own conversion of it if there is one."""
    from huggingface_hub import HfApi

    from ttm_jax.weights.safetensors_files import no_weights

    names: list[str] = []
    converted = None
    with suppress(Exception):  # this only makes an error message better
        if not offline:
            names = HfApi().list_repo_files(repo, revision=revision)
            converted = next(
                HfApi().get_repo_discussions(
                    repo,
                    author="SFconvertbot",
                    discussion_type="pull_request",
                    discussion_status="open",
                ),
                None,
            )
    message = no_weights(repo, names)
    if converted is None:
        return message
    return f'{message}; or use the hub\'s own conversion: revision "{converted.git_reference}"'


def _by_hand(url: str) -> str:
    if url.startswith("gs://"):
        public = url.replace("gs://", "https://storage.googleapis.com/", 1)
        return f"pip install 'ttm_jax[gcs]', or download {public} and give the path of the file"
    return "download it and give the path of the file"


def _line(error: Exception) -> str:
    """The first line of an error: those of the hub go on for paragraphs."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
