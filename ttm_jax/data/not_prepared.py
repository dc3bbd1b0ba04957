"""The error for files that a download would bring, and reading annotation files with it."""

from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.files import read_json


class NotPrepared(InputError):
    """Files of a benchmark are not on the disk; `ttm data` fetches them."""


def require_file(path: Path) -> Path:
    if not path.exists():
        raise NotPrepared(f"{path} does not exist")
    return path


def read_annotation(path: Path) -> Any:
    return read_json(require_file(path))
