"""One file from a URL: continued where it stopped, checked, and only then given its name.

While it arrives it is `<name>.part`; beside it `<name>.part.json` records which version of which
file it is part of, so that two versions are never joined.
"""

import errno
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from ttm_jax import limits
from ttm_jax.data.download.addresses import shown
from ttm_jax.data.download.checksum import Checksum, file_digest
from ttm_jax.data.download.http import (
    DownloadError,
    Passing,
    Patience,
    RangeRefused,
    describe,
    open_url,
    whole_number,
)
from ttm_jax.data.download.progress import Bar, no_bar
from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point
from ttm_jax.files import read_within, write_json

_PART, _NOTE = ".part", ".part.json"
_CHUNK = 1 << 18
_SMALL = 1 << 15  # bytes of a file that is not worth continuing
_SPARE = 64 << 20  # bytes that a disk should have left after a download
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LARGEST_NOTE = 1 << 16


class ChangedFile(DownloadError):
    """What arrived is not what was published."""


@dataclass(frozen=True)
class _Version:
    """Which file a part belongs to. `validator` is an ETag or a date, if the server has one."""

    identity: str
    validator: str | None
    total: int | None


@dataclass(frozen=True)
class _Wanted:
    """What is asked for, and where it is kept meanwhile."""

    url: str
    identity: str
    headers: Mapping[str, str]
    part: Path
    note: Path
    size: int | None
    checked: bool

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def fetch(
    url: str,
    target: Path,
    *,
    checksum: Checksum | None = None,
    size: int | None = None,
    headers: Mapping[str, str] | None = None,
    identity: str | None = None,
    bar: Bar = no_bar,
    patience: Patience | None = None,
) -> None:
    """Put the file at `target`.

    `size` is the listed number of bytes: not a byte more is read. Where none is listed, the limit
    is `DOWNLOAD_BYTES`. `identity` names the file where its URL is another one every time.
    """
    patience = patience or Patience()
    wanted = _Wanted(
        url=url,
        identity=identity or url,
        headers=headers or {},
        part=target.with_name(f"{target.name}{_PART}"),
        note=target.with_name(f"{target.name}{_NOTE}"),
        size=size,
        checked=checksum is not None,
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _receive(wanted, bar, patience)
        if checksum is not None and not checksum.matches(wanted.part):
            found = file_digest(wanted.part, checksum.algorithm)
            wanted.discard()
            raise ChangedFile(
                f"{shown(url)} came with {checksum.algorithm} {found}, expected {checksum}"
            )
        fault_point("download complete")
        os.replace(wanted.part, target)
        fault_point("download renamed")
        wanted.note.unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(target, error) from error


def remove_lone_notes(folder: Path) -> None:
    """Remove the notes of parts that are gone: of files that got their names before a kill."""
    for note in folder.glob(f"*{_NOTE}"):
        if note.is_file() and not note.with_name(note.name.removesuffix(".json")).exists():
            note.unlink(missing_ok=True)


def disk_error(path: Path, error: OSError) -> InputError:
    """A full disk, or a folder that cannot be written."""
    if error.errno in _FULL:
        folder = next(parent for parent in path.parents if parent.exists())
        free = shutil.disk_usage(folder).free / 1e6
        return InputError(
            f"{path}: no space left on the disk ({free:.0f} MB free); make room or choose another "
            "folder, then rerun the same command to resume"
        )
    return InputError(f"{path} cannot be written: {describe(error)}; choose another folder")


def _receive(wanted: _Wanted, bar: Bar, patience: Patience) -> None:
    """Try until the part is complete; what counts as a failure is a try that brings nothing."""
    failures = 0
    while True:
        before = _size(wanted.part)
        try:
            _continue(wanted, bar)
            return
        except Passing as error:
            failures = 1 if _size(wanted.part) > before else failures + 1
            if failures >= patience.tries:
                raise DownloadError(f"{error} (tried {failures} times)") from error
        patience.wait(failures)


def _continue(wanted: _Wanted, bar: Bar) -> None:
    """Get the rest of a part, or all of it."""
    have, version = _size(wanted.part), _read_note(wanted.note)
    if version is None or version.identity != wanted.identity:
        have = 0
    elif version.total == have > 0 and wanted.size in (None, have):
        return  # it was complete, but not yet renamed
    elif version.validator is None and not wanted.checked:
        have = 0  # nothing would tell that the file changed in between
    asked = dict(wanted.headers)
    if have and version is not None:
        asked["Range"] = f"bytes={have}-"
        if version.validator is not None:
            asked["If-Range"] = version.validator
    try:
        response = open_url(wanted.url, asked)
    except RangeRefused as error:
        wanted.discard()
        raise Passing(f"{shown(wanted.url)} is shorter than what is here of it") from error
    with response:
        if response.headers.get_content_type() == "text/html":
            raise DownloadError(f"{shown(wanted.url)} answers with a web page instead of the file")
        # 200 means: here is all of it, because it changed or because the server has no ranges
        start = _start_of(response, have, version)
        if start is None:
            wanted.discard()
            raise Passing(f"{shown(wanted.url)} was asked for its rest and gave something else")
        length = whole_number(response.headers.get("Content-Length"))
        total = None if length is None else start + length
        _check_size(wanted, total)
        if start == 0:  # a note must never name another version than the part beside it is of
            wanted.discard()
        _check_space(wanted.part, None if total is None else total - start)
        if total is None or total > _SMALL:
            write_json(wanted.note, asdict(_Version(wanted.identity, _validator(response), total)))
            fault_point("download note written")
        done = _copy(wanted, response, start, total, bar)
    expected = total if total is not None else wanted.size
    if expected is not None and done < expected:
        raise Passing(
            f"{shown(wanted.url)}: the connection was lost after {done} of {expected} bytes"
        )


def _start_of(response: HTTPResponse, have: int, version: _Version | None) -> int | None:
    """Where the body starts in the file; None if it does not continue the part that we have."""
    if response.status != 206:
        return 0
    said = response.headers.get("Content-Range", "").removeprefix("bytes ")
    span, _, total = said.partition("/")
    known = None if version is None else version.total
    same_length = known is None or whole_number(total) in (None, known)
    return have if span.partition("-")[0] == str(have) and same_length else None


def _check_size(wanted: _Wanted, total: int | None) -> None:
    """Refuse a file of another size than listed, or of an absurd one, before a byte is stored."""
    if total is not None and wanted.size is not None and total != wanted.size:
        wanted.discard()
        raise ChangedFile(f"{shown(wanted.url)} has {total} bytes, {wanted.size} are listed")
    most = limits.allowed("DOWNLOAD_BYTES")
    if max(total or 0, wanted.size or 0) > most:
        raise _too_large(wanted.url, most)


def _copy(wanted: _Wanted, response: HTTPResponse, start: int, total: int | None, bar: Bar) -> int:
    """Store the body behind the first `start` bytes; how long the file is then."""
    most = limits.allowed("DOWNLOAD_BYTES")
    done = start
    bar(done, total)
    with wanted.part.open("r+b" if start else "wb") as file:
        file.seek(start)
        while True:
            try:
                chunk = response.read1(_CHUNK)  # what is there, without waiting for more
            except (OSError, HTTPException) as error:
                raise Passing(f"{shown(wanted.url)}: {describe(error)}") from error
            if not chunk:
                break
            done += len(chunk)
            if wanted.size is not None and done > wanted.size:
                wanted.discard()
                raise ChangedFile(
                    f"{shown(wanted.url)} sends more than the {wanted.size} listed bytes"
                )
            if done > most:
                wanted.discard()
                raise _too_large(wanted.url, most)
            file.write(chunk)
            file.flush()  # so that a killed process leaves all that came
            bar(done, total)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return done


def _too_large(url: str, most: int) -> DownloadError:
    return DownloadError(
        f"{shown(url)} has more than {most} bytes, the most that is fetched; "
        "TTM_JAX_MAX_DOWNLOAD_BYTES changes this"
    )


def _validator(response: HTTPResponse) -> str | None:
    """For If-Range, which takes strong ETags and dates only (RFC 9110, 13.1.5)."""
    tag = response.headers.get("ETag")
    if tag and not tag.startswith("W/"):
        return tag
    return response.headers.get("Last-Modified")


def _check_space(part: Path, coming: int | None) -> None:
    free = shutil.disk_usage(part.parent).free
    if coming is not None and coming + _SPARE > free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read_note(note: Path) -> _Version | None:
    """What is known of a part; None if there is no note, or one that nobody wrote as it is now."""
    try:
        values = json.loads(read_within(note, _LARGEST_NOTE))
        version = _Version(values["identity"], values["validator"], values["total"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    known, total = version.validator, version.total
    is_sound = (
        isinstance(version.identity, str)
        and (known is None or (isinstance(known, str) and known.isascii() and known.isprintable()))
        and (total is None or (type(total) is int and total >= 0))
    )
    return version if is_sound else None


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
