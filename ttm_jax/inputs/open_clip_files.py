"""`open_clip_config.json`, which OpenCLIP keeps beside `open_clip_model.safetensors`.

    {"model_cfg": {"embed_dim": 512, "vision_cfg": {...}, "text_cfg": {...}},
     "preprocess_cfg": {"mean": [...], "std": [...], "interpolation": "bicubic"}}

Many folders of the hub hold the same model twice, for transformers and for OpenCLIP. The files of
transformers are the ones that are read, if `config.json` is theirs: timm's has no `model_type`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.inputs.json_files import read_optional_json

CONFIG = "open_clip_config.json"
Only = dict[str, tuple[Any, ...]]  # setting -> its supported values
OFF = (None, False)


def is_open_clip(folder: Path) -> bool:
    """Whether a folder is to be read as OpenCLIP's."""
    if not (folder / CONFIG).is_file():
        return False
    return "model_type" not in read_optional_json(folder / "config.json")


def read_section(folder: Path, *names: str) -> dict[str, Any]:
    """An object inside the file, e.g. `read_section(folder, "model_cfg", "text_cfg")`."""
    file = folder / CONFIG
    found: Any = read_optional_json(file)
    for depth, name in enumerate(names, start=1):
        found = found.get(name) or {}
        if not isinstance(found, dict):
            where = ".".join(names[:depth])
            raise InputError(f"{file}: {where} is {found!r:.40}; expected a JSON object")
    return found


def refuse_others(fields: Mapping[str, Any], only: Only, free: set[str], where: str) -> None:
    """Refuse a setting that is unknown, or that has another value than the supported ones."""
    for key in (*only, *fields):
        if key not in fields or (key in free and key not in only):
            continue
        if not any(fields[key] is value or fields[key] == value for value in only.get(key, OFF)):
            raise InputError(
                f"{where}.{key} is {fields[key]!r:.60}, which is not supported; expected "
                f"{' or '.join(repr(value) for value in only.get(key, OFF))}"
            )
