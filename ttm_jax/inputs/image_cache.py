"""A cache of preprocessed images on disk, so that the next run need not decode them again."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL
from jaxtyping import UInt8

from ttm_jax.errors import InputError
from ttm_jax.files import temporary_file

_DIGEST_BYTES = 16


class PixelCache:
    """One file per image, named by a hash of the encoded bytes and of all that shapes the pixels.

    A file holds a checksum and the raw pixels. A truncated or damaged file counts as absent and is
    written again. Files appear under their names when they are complete, so several runs may share
    a folder.
    """

    def __init__(self, folder: str | os.PathLike, settings: str, size: int) -> None:
        self._folder = Path(folder)
        # Another Pillow version may decode or resize with different rounding.
        self._settings = f"{settings} pillow={PIL.__version__}".encode()
        self._shape = (size, size, 3)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def fetch(
        self, data: bytes, make: Callable[[], UInt8[np.ndarray, "s s 3"]], variant: str = ""
    ) -> UInt8[np.ndarray, "s s 3"]:
        """The stored pixels of this encoded image, or those that `make` returns, then stored.

        `variant` names what shapes the pixels of this image and not of all images.
        """
        key = hashlib.blake2b(self._settings + b" " + variant.encode() + b"\0", digest_size=20)
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
        try:
            path.parent.mkdir(exist_ok=True)
            with temporary_file(path.parent) as (file, temporary):
                file.write(_digest(body) + body)
                file.flush()
                os.replace(temporary, path)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(
            f"cannot write to the image cache {self._folder}: {error.strerror or error}; "
            "free space or choose another folder"
        )


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
