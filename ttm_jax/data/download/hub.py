"""Files of datasets on the Hugging Face hub, as huggingface_hub lists them.

One request answers everything: the commit of a branch, and every file with its size and checksum.
(`list_repo_tree` would go from page to page, wherever an answer says that the next one is, and send
the token along.)
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from ttm_jax import limits
from ttm_jax.data.download.addresses import (
    check_address,
    check_move,
    is_local,
    joined,
    safe_path,
    shown,
)
from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.http import (
    DownloadError,
    Passing,
    Patience,
    network_error,
    retry,
    status_error,
)
from ttm_jax.errors import InputError

_TIMEOUT = 60.0
_COMMIT = re.compile("[0-9a-f]{7,64}")


@dataclass(frozen=True)
class HubFile:
    path: str
    bytes: int
    url: str
    checksum: Checksum


def find_token(endpoint: str) -> str | None:
    """$HF_TOKEN, or what `hf auth login` has stored; never for an unencrypted connection."""
    from huggingface_hub import get_token

    parts = urlsplit(endpoint)
    is_safe = parts.scheme == "https" or is_local(parts.hostname or "")
    return get_token() if is_safe else None


def authorization(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def list_files(
    endpoint: str, repo: str, token: str | None, patience: Patience, revision: str = "main"
) -> list[HubFile]:
    """The files of a branch as it is now; the commit is fixed, so all of them fit together."""
    if problem := check_address(endpoint):
        raise DownloadError(problem)
    where = f"{endpoint}/datasets/{repo}"
    info = retry(lambda: _ask(endpoint, repo, token, revision), patience)
    commit = getattr(info, "sha", None)
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise DownloadError(f"{where} does not say the commit of {revision}")
    listed = info.siblings or []
    most = limits.allowed("LISTED_FILES")
    if len(listed) > most:
        raise DownloadError(f"{where} lists {len(listed)} files; at most {most} are expected")
    files = [_file(where, commit, entry) for entry in listed]
    if len({file.path for file in files}) < len(files):
        raise DownloadError(f"{where} lists a file twice")
    return files


def _ask(endpoint: str, repo: str, token: str | None, revision: str) -> Any:
    """huggingface_hub's own description of the dataset, with its errors sorted as ours are."""
    from huggingface_hub import HfApi, constants, errors, get_session

    if constants.is_offline_mode():
        raise DownloadError("HF_HUB_OFFLINE is set; unset it to fetch from the Hugging Face hub")
    url = f"{endpoint}/api/datasets/{repo}"
    # Compressed answers could unpack to any size.
    api = HfApi(endpoint, token or False, "ttm_jax", headers={"Accept-Encoding": "identity"})
    # The base of the errors of the HTTP library that huggingface_hub uses.
    http_error: type[Exception] = errors.HfHubHTTPError.__mro__[1]
    try:
        with _bounded(get_session()):
            return api.dataset_info(repo, revision=revision, files_metadata=True, timeout=_TIMEOUT)
    except (InputError, Passing):
        raise
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        raise status_error(url, status, error.response.reason_phrase) from error
    except http_error as error:
        raise _connection_error(url, error) from error
    except OSError as error:
        raise network_error(url, error) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # huggingface_hub takes answers as they come; what is not as it should be fails somewhere
        raise DownloadError(f"{shown(url)} answers something that is not a listing") from error


@contextmanager
def _bounded(session: Any) -> Iterator[None]:
    """While this lasts, answers to this thread may neither redirect anywhere nor be endless."""
    thread = threading.get_ident()
    largest = limits.allowed("PAGE_BYTES")
    library = import_module(type(session).__module__.partition(".")[0])  # httpx, by any name

    class Stream(library.SyncByteStream):
        def __init__(self, response: Any) -> None:
            self._stream, self._url = response.stream, str(response.request.url)

        def __iter__(self) -> Iterator[bytes]:
            total = 0
            for chunk in self._stream:
                total += len(chunk)
                if total > largest:
                    raise DownloadError(f"{shown(self._url)} answers more than {largest} bytes")
                yield chunk

        def close(self) -> None:
            self._stream.close()

    def look(response: Any) -> None:
        if threading.get_ident() != thread:
            return
        here = str(response.request.url)
        if response.has_redirect_location:
            there = joined(here, response.headers["Location"])
            if problem := check_move(here, there):
                raise DownloadError(problem)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise DownloadError(f"{shown(here)} answers in an encoding that was not asked for")
        response.stream = Stream(response)

    before = session.event_hooks
    session.event_hooks = {**before, "response": [*before.get("response", []), look]}
    try:
        yield
    finally:
        session.event_hooks = before


def _connection_error(url: str, error: Exception) -> Exception:
    """The HTTP library wraps the error of the operating system, sometimes twice."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return network_error(url, cause)
        cause = cause.__cause__ or cause.__context__
    if type(error).__name__ == "TooManyRedirects":
        return DownloadError(f"{shown(url)} redirects too often")
    return Passing(f"{shown(url)}: {str(error) or type(error).__name__}")


def _file(where: str, commit: str, entry: Any) -> HubFile:
    """Large files have a SHA-256, small ones the id of their git blob."""
    path, size, large = entry.rfilename, entry.size, entry.lfs
    if not isinstance(path, str) or safe_path(path) is None:
        raise DownloadError(f"{where} lists a file {path!r}, which would lie outside the folder")
    if large is not None:
        checksum, digits = Checksum("sha256", str(large.sha256)), 64
    else:
        checksum, digits = Checksum("git", str(entry.blob_id)), 40
    is_complete = re.fullmatch(f"[0-9a-f]{{{digits}}}", checksum.value) is not None
    if type(size) is not int or size < 0 or not is_complete:
        raise DownloadError(f"{where} lists {path!r} without a usable size and checksum")
    return HubFile(path, size, f"{where}/resolve/{commit}/{quote(path)}", checksum)
