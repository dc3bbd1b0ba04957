"""Unpacking what came from elsewhere: nothing outside the folder, no links, no bombs.

Members are looked at one by one and written by us, so neither their paths nor their sizes have to
be believed. One bad member refuses the whole archive, and then nothing of it is left behind.
"""

import lzma
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from ttm_jax.data.download.progress import Bar, no_bar
from ttm_jax.errors import InputError

_CHUNK = 1 << 20
_PADDING = 16 << 20  # more than any tar program adds
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # a compression that zipfile does not know
)


@dataclass(frozen=True)
class Limits:
    """Far above what the benchmarks need (5,000 files, 800 MB)."""

    members: int = 50_000
    bytes: int = 8 << 30


class HostileArchive(InputError):
    """An archive that tries something that no benchmark needs."""


@dataclass(frozen=True)
class _Member:
    name: str
    is_folder: bool
    open: Callable[[], Any]


def unpack(archive: Path, into: Path, limits: Limits | None = None, bar: Bar = no_bar) -> None:
    """Unpack a zip or tar file as the new folder `into`, which appears when it is complete."""
    try:
        with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}.") as temporary:
            fresh = Path(temporary) / "unpacked"  # made by mkdir, so it has the usual rights
            fresh.mkdir()
            _unpack(archive, fresh, limits or Limits(), bar)
            fresh.rename(into)
    except OSError as error:
        raise InputError(f"{archive} cannot be unpacked: {error.strerror or error}") from error


def _unpack(archive: Path, folder: Path, limits: Limits, bar: Bar) -> None:
    seen: set[str] = set()
    left = limits.bytes
    members = 0
    with _members(archive) as found:
        for member in found:
            members += 1
            if members > limits.members:
                raise HostileArchive(f"{archive} has more than {limits.members} members")
            relative = _safe_name(archive, member.name)
            if not relative.parts:
                continue  # "./", the folder itself
            if member.is_folder:
                (folder / relative).mkdir(parents=True, exist_ok=True)
                continue
            if str(relative).casefold() in seen:
                raise HostileArchive(f"{archive} has {member.name!r} twice")
            seen.add(str(relative).casefold())
            left -= _write(archive, member, folder / relative, left, limits)
            bar(members, None)


def _write(archive: Path, member: _Member, target: Path, left: int, limits: Limits) -> int:
    """Copy a member; what counts is what comes out, not what the archive says of its size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with member.open() as source, target.open("xb") as file:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > left:
                raise HostileArchive(f"{archive} unpacks to more than {limits.bytes >> 20} MB")
            file.write(chunk)
    return written


def _safe_name(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or any(c in name for c in "\\:\0") or not name:
        raise HostileArchive(f"{archive} has a member {name!r}, which may lie outside its folder")
    return path


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    try:
        with archive.open("rb") as file:
            is_zip = file.read(2) == b"PK"
        if is_zip:
            with zipfile.ZipFile(archive) as zipped:
                yield _zip_members(archive, zipped)
        else:
            with tarfile.open(archive) as tarred:
                yield _tar_members(archive, tarred)
    except FileNotFoundError as error:
        raise InputError(f"{archive} does not exist") from error
    except _BROKEN as error:
        raise InputError(
            f"{archive} is not a complete zip or tar file ({error}); delete it and fetch it again"
        ) from error


def _zip_members(archive: Path, zipped: zipfile.ZipFile) -> Iterator[_Member]:
    for info in zipped.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where no Unix made the archive
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise HostileArchive(f"{archive} has a link or device {info.filename!r}")
        if info.flag_bits & 1:
            raise HostileArchive(f"{archive} has an encrypted member {info.filename!r}")
        # the name as stored: zipfile itself already cuts it at a NUL
        yield _Member(info.orig_filename, info.is_dir(), partial(zipped.open, info))


def _tar_members(archive: Path, tarred: tarfile.TarFile) -> Iterator[_Member]:
    for info in tarred:
        if not info.isreg() and not info.isdir():
            raise HostileArchive(f"{archive} has a link or device {info.name!r}")
        yield _Member(info.name, info.isdir(), partial(tarred.extractfile, info))
    # The checksum of gzip and xz stands at the very end, which reading the members does not reach.
    for _ in range(_PADDING // _CHUNK):
        if tarred.fileobj is None or not tarred.fileobj.read(_CHUNK):
            return
    raise HostileArchive(f"{archive} goes on after its end")
