"""Unpacking archives that others made: nothing outside the folder, no links, no bombs.

Members are examined one by one and written by us, so neither their paths nor their sizes are taken
on trust. One bad member refuses the whole archive, and then nothing of it is left behind.

Read are zip, tar and tar.gz, the formats in which benchmarks are published.
"""

import errno
import gzip
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ttm_jax import limits as bounds
from ttm_jax.data.download.addresses import safe_path
from ttm_jax.data.download.fetch import disk_error
from ttm_jax.data.download.progress import Bar, no_bar
from ttm_jax.errors import InputError
from ttm_jax.files import temporary_folder

_CHUNK = 1 << 16  # also the longest header that is read: a long name takes a few hundred bytes
_PADDING = 16 << 20  # more than any tar program adds
_FREE = 64 << 20  # bytes that may come out of the smallest archive
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
_RATIO = 100  # pictures are compressed already: their archives hardly are


def _members_at_most() -> int:
    return bounds.allowed("ARCHIVE_MEMBERS")


def _bytes_at_most() -> int:
    return bounds.allowed("ARCHIVE_BYTES")


@dataclass(frozen=True)
class Limits:
    """Far above what the benchmarks need (5,000 files, 800 MB)."""

    members: int = field(default_factory=_members_at_most)
    bytes: int = field(default_factory=_bytes_at_most)


class HostileArchive(InputError):
    """An archive that does something that no benchmark needs."""


@dataclass(frozen=True)
class _Member:
    name: str
    is_folder: bool
    announced: int
    open: Callable[[], Any]


def unpack(archive: Path, into: Path, limits: Limits | None = None, bar: Bar = no_bar) -> None:
    """Unpack a zip or tar file as the new folder `into`, which appears when it is complete."""
    limits = limits or Limits()
    try:
        packed = archive.stat().st_size
        most = min(limits.bytes, max(_FREE, _RATIO * packed))
        with temporary_folder(into.parent) as temporary:
            fresh = temporary / "unpacked"
            fresh.mkdir()
            _unpack(archive, fresh, limits.members, most, bar)
            fresh.rename(into)
    except FileNotFoundError as error:
        raise InputError(f"{archive} does not exist") from error
    except gzip.BadGzipFile as error:
        raise _broken(archive, error) from error
    except OSError as error:
        if error.errno in _OF_THE_DISK:
            raise disk_error(into, error) from error
        raise InputError(f"{archive} cannot be unpacked: {error.strerror or error}") from error


def _unpack(archive: Path, folder: Path, members: int, most: int, bar: Bar) -> None:
    seen: set[str] = set()
    left = most
    with _members(archive, most) as found:
        for number, member in enumerate(found, start=1):
            if number > members:
                raise HostileArchive(f"{archive} has more than {members} members")
            relative = safe_path(member.name)
            if relative is None:
                raise HostileArchive(
                    f"{archive} has a member {member.name!r}, which may lie outside its folder"
                )
            if not relative.parts:
                continue  # "./", the folder itself
            if member.is_folder:
                (folder / relative).mkdir(parents=True, exist_ok=True)
                continue
            if str(relative).casefold() in seen:
                raise HostileArchive(f"{archive} has {member.name!r} twice")
            seen.add(str(relative).casefold())
            left -= _write(archive, member, folder / relative, left, most)
            bar(number, None)


def _write(archive: Path, member: _Member, target: Path, left: int, most: int) -> int:
    """Copy a member. The announced size is refused if too large; what comes out is counted too."""
    if member.announced > left:
        raise _bomb(archive, most)
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with member.open() as source, target.open("xb") as file:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > left:
                raise _bomb(archive, most)
            file.write(chunk)
    return written


@contextmanager
def _members(archive: Path, most: int) -> Iterator[Iterator[_Member]]:
    """The members of an archive. Errors of the readers, which are many, mean: it is broken."""
    with archive.open("rb") as file:
        magic = file.read(2)
    try:
        if magic == b"PK":
            with zipfile.ZipFile(archive) as zipped:
                yield _zip_members(archive, zipped)
        else:
            with gzip.open(archive) if magic == b"\x1f\x8b" else archive.open("rb") as stream:
                yield _tar_members(archive, _Bounded(stream, archive, most))
    except (InputError, OSError):
        raise
    except Exception as error:
        raise _broken(archive, error) from error


def _zip_members(archive: Path, zipped: zipfile.ZipFile) -> Iterator[_Member]:
    for info in zipped.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where no Unix made the archive
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise HostileArchive(f"{archive} has a link or device {info.filename!r}")
        if info.flag_bits & 1:
            raise HostileArchive(f"{archive} has an encrypted member {info.filename!r}")
        # the name as stored: zipfile itself already cuts it at a NUL
        yield _Member(info.orig_filename, info.is_dir(), info.file_size, partial(zipped.open, info))


def _tar_members(archive: Path, stream: "_Bounded") -> Iterator[_Member]:
    with tarfile.open(fileobj=stream, mode="r:") as tarred:  # type: ignore[call-overload]
        for info in tarred:
            if info.issparse():  # a few bytes that stand for any number of zeros
                raise HostileArchive(f"{archive} has a sparse file {info.name!r}")
            if not info.isreg() and not info.isdir():
                raise HostileArchive(f"{archive} has a link or device {info.name!r}")
            # `size` of a folder means nothing, and the next member is at its end
            size = 0 if info.isdir() else info.size
            yield _Member(info.name, info.isdir(), size, partial(tarred.extractfile, info))
    # The checksum of gzip stands at the very end, which reading the members does not reach.
    for _ in range(_PADDING // _CHUNK):
        if not stream.read(_CHUNK):
            return
    raise HostileArchive(f"{archive} goes on after its end")


class _Bounded:
    """A file for `tarfile`, which would read a header of whatever length it announces at once."""

    def __init__(self, stream: Any, archive: Path, most: int) -> None:
        self._stream, self._archive, self._most = stream, archive, most
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _CHUNK:
            raise HostileArchive(f"{self._archive} has a header of {size} bytes")
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        if position > self._most + _PADDING:
            raise _bomb(self._archive, self._most)
        return self._stream.seek(position)


def _broken(archive: Path, error: Exception) -> InputError:
    return InputError(
        f"{archive} is not a complete zip, tar or tar.gz file ({error or type(error).__name__}); "
        "delete it and fetch it again"
    )


def _bomb(archive: Path, most: int) -> HostileArchive:
    return HostileArchive(f"{archive} unpacks to more than {most >> 20} MB")
