"""Small JSON files beside the weights of a checkpoint, and the two families of checkpoints."""

import json
from pathlib import Path
from typing import Any, Literal

from ttm_jax.errors import InputError

Family = Literal["siglip", "clip"]


def read_optional_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; an absent file is an empty object."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
    except ValueError as error:  # also a UnicodeDecodeError
        raise InputError(f"{file} is not valid JSON: {error}; fetch it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{file} holds {type(content).__name__}; expected a JSON object")
    return content
