"""Writing files so that a reader never sees half of one, and reading them within bounds.

Everything is first written under a temporary name in the folder where it will be. A process that is
killed leaves that file behind; the next process that writes to the folder removes it.
"""

import errno
import json
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from platform import node
from typing import Any, BinaryIO

from ttm_jax import limits
from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point

try:
    import fcntl
except ImportError:  # Windows: the process id in the name has to do
    fcntl = None  # type: ignore[assignment]

# .ttm_jax-<host>-<process id>-<random>.tmp
_TEMPORARY = re.compile(r"\.ttm_jax-([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{16}\.tmp")
_HOST = f"{zlib.crc32(node().encode()):08x}"
_ESCAPED = "backslashreplace"
_ABANDONED = 3600.0  # seconds after which an unlocked file counts as left behind in any case
_cleaned: set[str] = set()


def write_atomic(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it into place."""
    with named(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, write)


def _write(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    with temporary_file(path.parent) as (file, temporary):
        write(file)
        file.flush()
        os.fsync(file.fileno())
        fault_point("temporary file written")
        os.replace(temporary, path)


def write_text(path: Path, text: str) -> None:
    """UTF-8. Halves of surrogate pairs, with which Python stands for the bytes of a file name that
    are no UTF-8, become escapes that JSON reads back as they were."""
    write_atomic(path, lambda file: file.write(text.encode("utf-8", _ESCAPED)))


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Errors of writing, such as a full disk, name the file that was asked for."""
    try:
        yield
    except FileExistsError as error:  # above it is a file where a folder should be
        code = errno.ENOTDIR
        raise NotADirectoryError(code, os.strerror(code), str(path)) from error
    except OSError as error:  # without a name, or with one that nobody knows
        unnamed = error.filename is None or _TEMPORARY.search(str(error.filename))
        if error.errno is not None and unnamed:  # without a number, str() would lose its text
            error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def temporary_file(folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file in `folder`, open for writing, and its path; removed unless it was renamed."""
    _clean_once(folder)
    path = folder / _temporary_name()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        _lock(file.fileno())
        try:
            yield file, path
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """A new folder in `folder`; removed with its contents unless it was renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    _clean_once(folder)
    path = folder / _temporary_name()
    path.mkdir()
    handle = os.open(path, os.O_RDONLY) if fcntl is not None else None
    try:
        if handle is not None:
            _lock(handle)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders that killed processes left in `folder`."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name)
            if found is not None and not entry.is_symlink():
                with suppress(OSError):
                    _remove_if_abandoned(Path(entry.path), found[1], int(found[2]))


def read_within(path: str | os.PathLike, largest: int) -> bytes:
    """The content of a regular file of at most `largest` bytes; raises `OSError` otherwise.

    A pipe or a device is refused instead of being waited for.
    """
    _check_regular(os.stat(path).st_mode)  # before it is opened: opening a device may do something
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        now = os.fstat(file.fileno())
        _check_regular(now.st_mode)
        if now.st_size > largest:
            raise OSError(errno.EFBIG, f"it has {now.st_size} bytes, at most {largest} are read")
        data = file.read(now.st_size + 1)
    if len(data) > now.st_size:
        raise OSError(errno.EFBIG, "it grew while it was read")
    return data


def read_bytes(path: Path) -> bytes:
    """The content of a file that a person or another program wrote, within `LIST_BYTES`."""
    try:
        return read_within(path, limits.allowed("LIST_BYTES"))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except OSError as error:
        advice = "; TTM_JAX_MAX_LIST_BYTES changes this" if error.errno == errno.EFBIG else ""
        raise InputError(f"{path} cannot be read: {error.strerror or error}{advice}") from error
    except ValueError as error:  # a NUL character, or half a character, in the path
        raise InputError(f"{path} is not a file name") from error


def check_name(path: Path) -> None:
    """Raise `InputError` for a path that the libraries that store arrays cannot be given."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{path} is not a name in UTF-8; choose another one") from error


def file_problem(path: str | os.PathLike) -> str | None:
    """Why there is nothing to read at `path`, as the end of a sentence; None if all is well."""
    try:
        found = os.stat(path)
        _check_regular(found.st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except ValueError:  # a NUL character, or half a character
        return "is not a file name"
    if not os.access(path, os.R_OK):
        return "cannot be read: Permission denied"
    return None if found.st_size else "is empty"


def read_json(path: Path) -> Any:
    data = read_bytes(path)
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise InputError(f"{path} is not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise InputError(f"{path} is not JSON: {error}") from error


def append_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Add JSON lines and wait until the disk has them."""
    with named(path), path.open("a", encoding="utf-8", errors=_ESCAPED) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """JSON lines; a last line that a crash cut short is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            yield json.loads(line)


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Replace a file of JSON lines by a whole new one."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    write_text(path, "".join(lines))


def read_whole_lines(path: Path) -> Iterator[Any]:
    """JSON lines, whatever state the file is in: what is not a whole line of JSON is left out."""
    if not path.exists():
        return
    try:
        data = read_within(path, limits.allowed("LINES_BYTES"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    for line in data.splitlines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):  # also not UTF-8
            continue


def _temporary_name() -> str:
    return f".ttm_jax-{_HOST}-{os.getpid()}-{secrets.token_hex(8)}.tmp"


def _clean_once(folder: Path) -> None:
    """Once per process and folder: a folder may hold thousands of files."""
    name = os.path.realpath(folder)
    if name not in _cleaned:
        _cleaned.add(name)
        remove_leftovers(folder)


def _remove_if_abandoned(path: Path, host: str, process: int) -> None:
    """Remove it unless its owner lives: the owner holds a lock on it, which ends with the owner.

    Not every file system has locks, so the owner's process has to be gone as well. Processes of
    other machines cannot be asked: what is unlocked and has not been written to for an hour goes.
    """
    if not _can_lock(path):
        return
    is_gone = host == _HOST and not _is_alive(process)
    if is_gone or time.time() - path.stat().st_mtime > _ABANDONED:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _lock(handle: int) -> None:
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _can_lock(path: Path) -> bool:
    if fcntl is None:
        return True
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(handle)
    return True


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # there is no harmless way to ask
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file")
