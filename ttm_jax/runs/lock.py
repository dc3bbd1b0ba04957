"""One writer per run folder: a lock that the operating system releases when its holder exits."""

import os
import socket
from pathlib import Path

from ttm_jax.errors import InputError

NAME = ".lock"


class FolderLock:
    """Held from `acquire` to `release`; a second process gets an error that names the first.

    On file systems without locks (some network mounts, Windows) nothing is locked.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._handle: int | None = None

    def acquire(self) -> None:
        try:
            import fcntl
        except ImportError:
            return
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise InputError(
                f"{self._path.parent} is in use by {holder}; wait for it, or use another folder"
            ) from error
        except OSError:  # the file system does not support locks
            os.close(handle)
            return
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        self._handle = handle

    def _open(self) -> int:
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except (FileExistsError, NotADirectoryError) as error:
            raise InputError(f"{folder} is a file or inside one; expected a folder") from error
        except OSError as error:
            raise InputError(f"cannot write to {folder}: {error.strerror}") from error

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)  # keep the file: removing it would let two processes lock
            self._handle = None

    def __enter__(self) -> "FolderLock":
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
