"""How a command starts and ends: huge pages, one-line errors, exit codes. Light to import."""

import errno
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from ttm_jax import bucket_storage
from ttm_jax.cli.compile_cache import keep_compiled
from ttm_jax.cli.huge_pages import restart_with_huge_pages
from ttm_jax.cli.interrupts import acknowledged_interrupts, stop
from ttm_jax.errors import InputError, NonFinite
from ttm_jax.hosts import shutdown
from ttm_jax.plain_text import one_line
from ttm_jax.runs.signals import RunInterrupted

# What the system says of files and disks of the user, not of our code.
_OUTSIDE = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EISDIR,
    errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP, errno.EFBIG, errno.EIO,
    errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EBUSY, errno.ENXIO, errno.ENODEV,
}  # fmt: skip


def run(main: Callable[[], int | None]) -> None:
    """Call `main` and leave the process with its exit code.

    `InputError` becomes one line on stderr and exit code 2, `NonFinite` one line and exit code 1.
    So do files that cannot be read or written (no permission, no space, a file where a folder
    should be) and too little memory, with exit code 2. A run that was asked to stop says where it
    was saved; Ctrl-C elsewhere gives exit code 130. Anything else is a bug and keeps its traceback.
    On several hosts the first one says it, and all of them end.
    """
    restart_with_huge_pages()
    keep_compiled()
    with acknowledged_interrupts(), plain_warnings():
        code = _code_of(main)
        shutdown.finish()
    sys.exit(code or 0)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line for people, without the place in our code."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *place: f"warning: {one_line(str(message))}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _code_of(main: Callable[[], int | None]) -> int | None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # file names need not be valid text
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main()
        bucket_storage.push()
    except InputError as error:
        code = _refuse(str(error))
    except NonFinite as error:
        code = _refuse(str(error), 1)
    except RunInterrupted as interrupted:
        print(f"{interrupted}; rerun the same command to resume", file=sys.stderr)
        code = interrupted.code
    except MemoryError as error:
        code = _refuse(f"not enough memory: {error}")
    except BrokenPipeError:  # `... | head` closed the pipe: not an error of ours
        sys.stderr.close()
        code = 141
    except OSError as error:
        if error.errno not in _OUTSIDE:
            shutdown.crash(error)
            raise
        where = "" if error.filename is None else f": {error.filename}"
        code = _refuse(f"{error.strerror}{where}")
    except KeyboardInterrupt:
        stop()
    except Exception as error:
        shutdown.crash(error)
        raise
    return code


def _refuse(message: str, code: int = 2) -> int:
    """Say in one line what is wrong; the exit code for it."""
    return shutdown.refuse(f"error: {one_line(message)}", code)
