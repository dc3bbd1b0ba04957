"""Run folders of several hosts lie on storage that all of them see; the first host writes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ttm_jax import bucket_storage, files
from ttm_jax.errors import InputError
from ttm_jax.hosts import exchange
from ttm_jax.hosts.join import timeout
from ttm_jax.hosts.this_host import is_first

_PATIENCE = 60.0  # seconds; network file systems remember for a while that a file was missing


def check_shared(written: Path) -> None:
    """Refuse a folder of the first host that another host does not see.

    Args:
        written: A file that the first host has just written.
    """
    end = time.monotonic() + min(_PATIENCE, timeout())
    sync()
    while not (seen := written.exists()) and time.monotonic() < end:
        time.sleep(0.2)
    blind = [host for host, sees in enumerate(exchange.from_all(seen)) if not sees]
    if blind:
        raise InputError(
            f"host {blind[0]} does not see {written.parent}, where host 0 writes: give a folder on "
            "storage that all hosts share, such as a bucket (gs://...) or a network file system"
        )


def sync() -> None:
    """After this, all hosts see what the one that writes has written so far."""
    if is_first():
        bucket_storage.push()
    exchange.wait_for_all()
    if not is_first():
        bucket_storage.pull()
    exchange.wait_for_all()


def share() -> None:
    """After this, all hosts see what each of them has written."""
    bucket_storage.push()
    exchange.wait_for_all()
    bucket_storage.pull()
    exchange.wait_for_all()


def write_text(path: Path, text: str) -> None:
    """Write a file of the shared folder, on the host that writes."""
    if is_first():
        files.write_text(path, text)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file of the shared folder, on the host that writes."""
    if is_first():
        files.write_json(path, value)


def write_atomic(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Fill a file of the shared folder, on the host that writes."""
    if is_first():
        files.write_atomic(path, write)
