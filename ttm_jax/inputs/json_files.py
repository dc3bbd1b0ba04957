"""Reading the small JSON files next to the weights of a checkpoint."""

import json
from pathlib import Path
from typing import Any

from ttm_jax import limits
from ttm_jax.errors import InputError
from ttm_jax.files import read_within


def read_optional_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file does not exist."""
    try:
        content = json.loads(read_within(file, limits.allowed("JSON_BYTES")).decode("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # also a UnicodeDecodeError
        raise InputError(f"{file} is not valid JSON: {error}; download it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{file} contains {type(content).__name__}; expected a JSON object")
    return content
