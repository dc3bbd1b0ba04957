"""Preprocessed images on disk, so that the next run does not decode them again."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL
from jaxtyping import UInt8

from ttm_jax.errors import InputError

_DIGEST_BYTES = 16


class PixelCache:
    """One file an image, named by a hash of the encoded bytes and of all that shapes the pixels.

    A file is a checksum and the raw pixels. One that is cut or damaged counts as absent and is
    written anew. Files are complete from the moment they have their name, so several runs may
    share a folder.
    """

    def __init__(self, folder: str | os.PathLike, settings: str, size: int) -> None:
        self._folder = Path(folder)
        # Another Pillow may decode or resize with other rounding.
        self._settings = f"{settings} pillow={PIL.__version__}".encode()
        self._shape = (size, size, 3)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def fetch(
        self, data: bytes, make: Callable[[], UInt8[np.ndarray, "s s 3"]]
    ) -> UInt8[np.ndarray, "s s 3"]:
        """The stored pixels of this encoded image, or those that `make` returns, then stored."""
        key = hashlib.blake2b(self._settings + b"\0", digest_size=20)
        key.update(data)
        name = key.hexdigest()
        path = self._folder / name[:2] / f"{name}.pixels"
        pixels = self._read(path)
        if pixels is None:
            pixels = make()
            self._write(path, pixels)
        return pixels

    def _read(self, path: Path) -> np.ndarray | None:
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if len(body) != np.prod(self._shape) or digest != _digest(body):
            return None
        return np.frombuffer(body, np.uint8).reshape(self._shape)

    def _write(self, path: Path, pixels: np.ndarray) -> None:
        body = pixels.tobytes()
        temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            path.parent.mkdir(exist_ok=True)
            temporary.write_bytes(_digest(body) + body)
            os.replace(temporary, path)
        except OSError as error:
            raise self._unwritable(error) from error
        finally:
            with contextlib.suppress(OSError):  # gone already when all went well
                temporary.unlink()

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(
            f"cannot write to the image cache {self._folder}: {error.strerror or error}; "
            "free space or choose another folder"
        )


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
