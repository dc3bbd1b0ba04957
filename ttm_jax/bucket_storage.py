"""Folders in a bucket (gs://, s3://, ...), worked on in a copy on this machine.

The library is fsspec: orbax (through etils.epath) and huggingface_hub rest on it already, and it
opens what its drivers open (`gcsfs` for gs://, `s3fs` for s3://). A process that works on a run
folder in a bucket has a temporary copy of it, where the usual code reads and appends; what has
changed is sent to the bucket before every checkpoint and at the end. Checkpoints themselves are
written to the bucket directly, by all hosts, and are never copied.

An object appears whole or not at all, but several objects do not appear at once: the order in which
they are sent is that in which a killed run can be resumed. There are no locks in a bucket.
"""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://([^/].*)", re.DOTALL)
# A Path has lost the second slash of gs://bucket. Texts must have both: those of a run folder are
# refused by their "://" (hub.check_recorded).
_IN_A_PATH = re.compile(r"([a-z][a-z0-9+.-]+):/([^/].*)", re.DOTALL)
_DIRECT = ("checkpoints", "interrupted", "damaged")  # folders that are not copied
_NOT_SENT = (".lock", ".tmp")
_LAST = "summary.json"  # if it exists, a run is complete
_THREADS = 16


@dataclass
class _Copy:
    """A copy here of a folder there, and what was the same when it was last looked at."""

    here: Path
    address: str
    sent: dict[str, tuple[int, int]] = field(default_factory=dict)

    def pull(self) -> None:
        """Make the copy the same as the folder there."""
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.mkdir(parents=True, exist_ok=True)
        _download(self.address, self.here, skip=_DIRECT)
        self.sent = dict(self._files())

    def push(self) -> None:
        """Send what has changed here; what was removed here is removed there."""
        files = dict(self._files())
        changed = [name for name, state in files.items() if self.sent.get(name) != state]
        gone = [name for name in self.sent if name not in files]
        if not changed and not gone:
            return
        system, root = _open(self.address)

        def send(name: str) -> None:
            system.pipe_file(f"{root}/{name}", (self.here / name).read_bytes())

        with _Errors(self.address, "written"):
            for name in gone:
                if system.exists(f"{root}/{name}"):
                    system.rm_file(f"{root}/{name}")
            with ThreadPoolExecutor(_THREADS) as pool:
                list(pool.map(send, [name for name in changed if Path(name).name != _LAST]))
            for name in sorted(changed):
                if Path(name).name == _LAST:
                    send(name)
        self.sent = files

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for folder, folders, names in os.walk(self.here):
            folders[:] = [name for name in folders if name not in _DIRECT]
            for name in names:
                path = Path(folder, name)
                if not name.endswith(_NOT_SENT):
                    state = path.stat()
                    yield str(path.relative_to(self.here)), (state.st_size, state.st_mtime_ns)


_copies: dict[Path, _Copy] = {}


def is_address(path: str | Path) -> bool:
    """Whether this names a place in a bucket, as gs://bucket/folder does."""
    return _parts(path) is not None


def address_of(path: str | Path) -> str:
    """The address as the user wrote it: gs://bucket/folder."""
    found = _parts(path)
    assert found is not None
    return f"{found[1]}://{found[2].rstrip('/')}"


def _parts(path: str | Path) -> re.Match[str] | None:
    return (_ADDRESS if isinstance(path, str) else _IN_A_PATH).fullmatch(str(path))


def working_folder(path: Path) -> Path:
    """Where to work on a folder that may be in a bucket; a local path is returned as it is.

    Args:
        path: A path, or an address such as gs://bucket/runs/mine.
    """
    if not is_address(path):
        return path
    address = address_of(path)
    for copy in _copies.values():
        if copy.address == address:
            return copy.here
    place = Path(tempfile.mkdtemp(prefix="ttm_jax-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    here = place / address.rsplit("/", 1)[-1]
    _copies[here] = _Copy(here, address)
    _copies[here].pull()
    return here


def fetched(path: str | Path) -> Path:
    """A copy of a file or folder in a bucket, to read from; a local path is returned as it is.

    It is downloaded again only if it has changed there.
    """
    if not is_address(path):
        return Path(path)
    import hashlib

    address = address_of(path)
    listing = sorted((name, str(info)) for name, info in _list(address).items())
    if not listing:
        raise InputError(f"{address} does not exist, or holds no files")
    version = hashlib.sha256(repr((address, listing)).encode()).hexdigest()[:16]
    folder = _cache() / version
    here = folder / Path(address).name
    if not here.exists():
        shutil.rmtree(folder, ignore_errors=True)
        partial = folder.with_name(f"{version}.{os.getpid()}.tmp")
        _download(address, partial / here.name)
        try:
            partial.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(partial, ignore_errors=True)
    return here


def stored_at(path: Path) -> str | None:
    """The address of a path inside a working folder; None if it is simply a local path."""
    for here, copy in _copies.items():
        if path == here or here in path.parents:
            inner = path.relative_to(here).as_posix()
            return copy.address if inner == "." else f"{copy.address}/{inner}"
    return None


def shown(path: Path) -> str:
    """A path as the user knows it."""
    return stored_at(path) or str(path)


def push() -> None:
    """Send what has changed in all working folders."""
    for copy in _copies.values():
        copy.push()


def pull() -> None:
    """See what other hosts have sent."""
    for copy in _copies.values():
        copy.pull()


def _download(address: str, here: Path, skip: tuple[str, ...] = ()) -> None:
    system, root = _open(address)
    with _Errors(address, "read"):
        names = [name for name in _list(address) if not set(skip) & set(name.split("/"))]

        def get(name: str) -> None:
            target = here / name if name else here
            target.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(f"{root}/{name}" if name else root, str(target))

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(get, names))


def _list(address: str) -> dict[str, Any]:
    """Size and time of the files under an address; "" is the address itself, if it is a file."""
    system, root = _open(address)
    with _Errors(address, "read"):
        system.invalidate_cache()
        found = system.find(root, detail=True)
    return {
        name.removeprefix(root).lstrip("/"): [info.get(key) for key in ("size", "etag", "mtime")]
        for name, info in found.items()
        if info.get("type") != "directory" and _is_inside(name.removeprefix(root))
    }


def _is_inside(name: str) -> bool:
    """Names come from the bucket: none may lead out of the folder here."""
    return ".." not in name.split("/")


def _open(address: str) -> tuple[Any, str]:
    """The file system of an address and its path there."""
    try:
        import fsspec

        system, root = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:  # no driver, or no such protocol
        extra = " (pip install gcsfs, the extra `gcs`)" if address.startswith("gs://") else ""
        raise InputError(f"{address} cannot be opened: {_line(error)}{extra}") from error
    return system, root.rstrip("/")


class _Errors:
    """Every driver has errors of its own; a user needs the first line of any."""

    def __init__(self, address: str, done: str) -> None:
        self.address, self.done = address, done

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, InputError):
            text = f"{self.address} cannot be {self.done}: {_line(error)}"
            raise InputError(text) from error


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "ttm_jax" / "buckets"


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
