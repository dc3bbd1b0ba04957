"""One file from a URL: continued where it stopped, checked, and only then given its name.

While it comes it is `<name>.part`; beside it `<name>.part.json` remembers which version of which
file it is part of, so that two versions are never glued together.
"""

import errno
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from ttm_jax.data.download.checksum import Checksum, file_digest
from ttm_jax.data.download.http import (
    DownloadError,
    Passing,
    Patience,
    RangeRefused,
    describe,
    open_url,
)
from ttm_jax.data.download.progress import Bar, no_bar
from ttm_jax.errors import InputError
from ttm_jax.files import write_json

_CHUNK = 1 << 18
_SMALL = 1 << 15  # bytes of a file that is not worth continuing
_SPARE = 64 << 20  # bytes that a disk should have left after a download
_FULL = (errno.ENOSPC, errno.EDQUOT)


class ChangedFile(DownloadError):
    """What came is not what was published."""


@dataclass(frozen=True)
class _Version:
    """Which file a part belongs to. `validator` is an ETag or a date, if the server has one."""

    identity: str
    validator: str | None
    total: int | None


def fetch(
    url: str,
    target: Path,
    *,
    checksum: Checksum | None = None,
    headers: Mapping[str, str] | None = None,
    identity: str | None = None,
    bar: Bar = no_bar,
    patience: Patience | None = None,
) -> None:
    """Put the file at `target`. `identity` names it where its URL is another one every time."""
    patience = patience or Patience()
    part = target.with_name(f"{target.name}.part")
    note = target.with_name(f"{target.name}.part.json")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _disk_error(target, error) from error
    failures = 0
    while True:
        before = _size(part)
        try:
            _continue(url, part, note, headers or {}, identity or url, checksum is not None, bar)
            break
        except Passing as error:
            failures = 1 if _size(part) > before else failures + 1
            if failures >= patience.tries:
                raise DownloadError(f"{error} (tried {failures} times)") from error
        patience.wait(failures)
    if checksum is not None and not checksum.matches(part):
        found = file_digest(part, checksum.algorithm)
        _discard(part, note)
        raise ChangedFile(f"{url} came with {checksum.algorithm} {found}, expected {checksum}")
    os.replace(part, target)
    note.unlink(missing_ok=True)


def _continue(
    url: str,
    part: Path,
    note: Path,
    headers: Mapping[str, str],
    identity: str,
    will_be_checked: bool,
    bar: Bar,
) -> None:
    """Get the rest of a part, or all of it."""
    have, version = _size(part), _read_note(note)
    if version is None or version.identity != identity:
        have = 0
    elif version.total == have > 0:
        return  # it was complete, but not yet renamed
    elif version.validator is None and not will_be_checked:
        have = 0  # nothing would tell that the file changed in between
    asked = dict(headers)
    if have and version is not None:
        asked["Range"] = f"bytes={have}-"
        if version.validator is not None:
            asked["If-Range"] = version.validator
    try:
        response = open_url(url, asked)
    except RangeRefused as error:
        _discard(part, note)
        raise Passing(f"{url} is not as long as what is here of it; starting over") from error
    with response:
        if response.headers.get_content_type() == "text/html":
            raise DownloadError(f"{url} answers with a web page instead of the file")
        # 200 means: here is all of it, because it changed or because the server has no ranges
        start = _start_of(response, have, version)
        if start is None:
            _discard(part, note)
            raise Passing(f"{url} was asked for its rest and gave something else; starting over")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        validator = _validator(response)
        try:
            _check_space(part, None if total is None else total - start)
            if total is None or total > _SMALL:
                write_json(note, asdict(_Version(identity, validator, total)))
        except OSError as error:
            raise _disk_error(part, error) from error
        done = _copy(response, part, start, total, bar)
    if total is not None and done < total:
        raise Passing(f"{url}: the connection was lost after {done} of {total} bytes")


def _start_of(response: HTTPResponse, have: int, version: _Version | None) -> int | None:
    """From where the body counts; None if it does not continue the part that we have."""
    if response.status != 206:
        return 0
    said = response.headers.get("Content-Range", "").removeprefix("bytes ")
    span, _, total = said.partition("/")
    known = None if version is None else version.total
    same_length = known is None or not total.isdecimal() or int(total) == known
    return have if span.partition("-")[0] == str(have) and same_length else None


def _copy(response: HTTPResponse, part: Path, start: int, total: int | None, bar: Bar) -> int:
    done = start
    bar(done, total)
    try:
        file = part.open("r+b" if start else "wb")
    except OSError as error:
        raise _disk_error(part, error) from error
    with file:
        file.seek(start)
        while True:
            try:
                chunk = response.read1(_CHUNK)  # what is there, without waiting for more
            except (OSError, HTTPException) as error:
                raise Passing(f"{response.geturl()}: {describe(error)}") from error
            if not chunk:
                break
            _write(file, chunk, part)
            done += len(chunk)
            bar(done, total)
        try:
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise _disk_error(part, error) from error
    return done


def _write(file: Any, chunk: bytes, part: Path) -> None:
    try:
        file.write(chunk)
        file.flush()  # so that a killed process leaves all that came
    except OSError as error:
        raise _disk_error(part, error) from error


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


def _disk_error(path: Path, error: OSError) -> InputError:
    folder = next(parent for parent in path.parents if parent.exists())
    if error.errno in _FULL:
        free = shutil.disk_usage(folder).free / 1e6
        return InputError(
            f"{path}: no space left on the disk ({free:.0f} MB free); make room or choose another "
            "--data-dir, then the same command goes on from here"
        )
    return InputError(f"{path} cannot be written: {describe(error)}; choose another --data-dir")


def _read_note(note: Path) -> _Version | None:
    try:
        values = json.loads(note.read_text(encoding="utf-8"))
        return _Version(values["identity"], values["validator"], values["total"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _discard(part: Path, note: Path) -> None:
    part.unlink(missing_ok=True)
    note.unlink(missing_ok=True)
