"""The error that a download can mend, and reading annotation files with it."""

from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.files import read_json


class NotPrepared(InputError):
    """Files of a benchmark are not on the disk; `experiments.prepare_data` fetches them."""


def require_file(path: Path) -> Path:
    if not path.is_file():
        raise NotPrepared(f"{path} does not exist; `python -m experiments.prepare_data` fetches it")
    return path


def read_annotation(path: Path) -> Any:
    return read_json(require_file(path))
