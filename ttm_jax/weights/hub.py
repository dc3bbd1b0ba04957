"""From what a user names to a local path: the Hugging Face hub, and files behind URLs."""

import hashlib
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.files import temporary_file
from ttm_jax.inputs.open_clip_files import is_open_clip
from ttm_jax.weights.safetensors_files import OPEN_CLIP_WEIGHTS

# Nothing that would have to be unpickled, and nothing of other frameworks, is downloaded.
_NEEDED = ["*.json", "model*.safetensors", "spiece.model", "tokenizer.model", "*.txt", "*.npz"]
_NOT_NEEDED = ["*/*"]  # copies for other runtimes live in subfolders
_CONVERTER = "SFconvertbot"  # https://huggingface.co/SFconvertbot
_REPO_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_REVISION = re.compile(r"\w[\w./-]{0,200}")
_FILE_SUFFIXES = (".npz", ".safetensors", ".json", ".bin")


def resolve(
    source: str, *, revision: str | None = None, offline: bool | None = None, urls: bool = True
) -> Path:
    """A local path for a local path, a URL of an npz file, or the id of a model on the hub.

    For the hub this is a folder, or the npz file where that is all that the repository has.
    Where a repository has its weights as a pickle only, the hub's own conversion of it is used.
    `revision` pins a branch, tag or commit. `offline` (or HF_HUB_OFFLINE=1) uses only what was
    downloaded before. HF_TOKEN, or a login by `hf auth login`, opens gated models. `urls=False`
    accepts local paths and hub ids only: see `check_recorded`.
    """
    if not source:
        raise InputError("no model was named: give a hub id or a path")
    if not urls:
        check_recorded(source, revision)
    if "://" in source:
        return fetch(source)
    path = Path(source).expanduser()
    if _exists(path):
        return path
    if _looks_like_a_path(source):
        raise InputError(f"{source} does not exist (it is taken for a path, not for a hub id)")
    folder = _download(source, revision, bool(offline))
    if is_open_clip(folder):
        folder = _download(source, revision, bool(offline), [OPEN_CLIP_WEIGHTS])
    names = sorted(path.name for path in folder.glob("*"))
    arrays = [name for name in names if name.endswith(".npz")]
    if "config.json" not in names and len(arrays) == 1:
        return folder / arrays[0]
    if not any(name.endswith(".safetensors") for name in names):
        return _converted(source, revision, bool(offline))
    return folder


def check_recorded(source: str, revision: str | None = None) -> None:
    """Refuse what a file may not make us open: anything but a local path or the id of a hub model.

    A run folder records where its model came from. Whoever made the folder must not be able to
    have the reader's machine connect to a server of their choice.
    """
    is_url = "://" in source or "::" in source or source.startswith(("\\\\", "//"))
    if is_url or not source.isprintable():
        raise InputError(
            f"the recorded model {source[:200]!r} is an address; only local paths and hub ids are "
            "taken from a run folder: download it yourself and name the file"
        )
    if revision is not None and not _REVISION.fullmatch(revision):
        raise InputError(f"the recorded revision {revision[:200]!r} is not one of the hub")
    path = Path(source).expanduser()
    if _exists(path) and not (path.is_dir() or path.is_file()):
        raise InputError(f"the recorded model {path} is a pipe or device, not a file or folder")


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
    bar = {"desc": path.name, "unit": "B", "unit_scale": True}
    with temporary_file(path.parent) as (_, temporary):
        with TqdmCallback(tqdm_kwargs=bar) as progress:
            filesystem.get_file(remote, str(temporary), callback=progress)
        temporary.replace(path)


def cache_folder() -> Path:
    """Where downloads from URLs are kept: $XDG_CACHE_HOME/ttm_jax, by default ~/.cache/ttm_jax."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ttm_jax"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long
        return False


def _looks_like_a_path(source: str) -> bool:
    return not _REPO_ID.fullmatch(source) or source.lower().endswith(_FILE_SUFFIXES)


def _download(repo: str, revision: str | None, offline: bool, needed: list[str] = _NEEDED) -> Path:
    """The files of a model that we need, with huggingface_hub's own progress bars and cache."""
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
            allow_patterns=needed,
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


def _converted(repo: str, revision: str | None, offline: bool) -> Path:
    """The hub's own conversion of a repository whose weights are a pickle.

    The bot SFconvertbot opens a pull request with `model.safetensors`; many owners never merge it:
    on the main branches of OpenAI's CLIP there are only pickles. transformers does the same.
    """
    offline = offline or _offline_by_environment()
    found = None
    if revision is None:
        found = _downloaded_conversion(repo) if offline else _offered_conversion(repo)
    if found is None:
        raise InputError(_no_weights(repo, revision, offline))
    folder = _download(repo, found, offline)
    if not any(folder.glob("*.safetensors")):
        raise InputError(_no_weights(repo, revision, offline))
    print(f"{repo}: its weights are a pickle; using the hub's conversion, {found}", file=sys.stderr)
    return folder


def _offered_conversion(repo: str) -> str | None:
    """The newest open pull request of the bot, and of nobody else: anyone may open others."""
    from huggingface_hub import HfApi

    with suppress(Exception):  # then the error is that there are no weights
        for pull in HfApi().get_repo_discussions(
            repo, author=_CONVERTER, discussion_type="pull_request", discussion_status="open"
        ):
            if pull.author == _CONVERTER and pull.git_reference is not None:
                return pull.git_reference
    return None


def _downloaded_conversion(repo: str) -> str | None:
    """A conversion that was used before, from huggingface_hub's cache."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repo, repo_type="model"))
    refs = sorted(folder.glob("refs/refs/pr/*"), key=lambda path: path.stat().st_mtime)
    return refs[-1].relative_to(folder / "refs").as_posix() if refs else None


def _no_weights(repo: str, revision: str | None, offline: bool) -> str:
    """Why a repository cannot be used."""
    from huggingface_hub import HfApi

    from ttm_jax.weights.safetensors_files import no_weights

    names: list[str] = []
    with suppress(Exception):  # this only makes an error message better
        if not offline:
            names = HfApi().list_repo_files(repo, revision=revision)
    return no_weights(repo, names)


def _by_hand(url: str) -> str:
    if url.startswith("gs://"):
        public = url.replace("gs://", "https://storage.googleapis.com/", 1)
        return f"pip install gcsfs (the extra `gcs`), or download {public} and give its path"
    return "download it and give the path of the file"


def _line(error: Exception) -> str:
    """The first line of an error: those of the hub go on for paragraphs."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
