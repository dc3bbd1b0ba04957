"""config.json: which run this is. Everything else in the folder has to agree with it."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ttm_jax.config import TTMConfig
from ttm_jax.errors import InputError
from ttm_jax.limits import allowed, variable
from ttm_jax.matching.large.pair_scores import STORED
from ttm_jax.runs.read.fields import Fields
from ttm_jax.runs.read.json_files import read_object, read_optional_object

CONFIG = "config.json"
_SHAPE = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")
# A setting that a later version adds is not in the folders of earlier ones; these always were.
_REQUIRED = (
    "matching", "tau_1", "tau_T", "tau_unit", "schedule", "oracle", "lr", "iterations", "epochs",
    "batch_groups", "augment", "keep_opt_state", "lr_decay", "min_lr_factor", "train", "lora_rank",
)  # fmt: skip


def read_identity(folder: Path) -> dict[str, Any]:
    """Settings, seed, model and dataset of a run, with the types that `TTMConfig` asks for."""
    found = read_object(folder / CONFIG)
    if not {"config", "seed", "model", "dataset"} <= found.values.keys():
        raise found.place.error(
            "not the settings of a run: expected config, seed, model and dataset"
        )
    config = _read_config(found.nested("config"))
    dataset = _read_dataset(found.nested("dataset"), config["matching"] == "global")
    model = found.nested("model")
    model.string("source")
    model.string("checksum")
    if model.known("scoring"):
        model.nested("scoring")
    return {**found.values, "config": config, "seed": found.integer("seed"), "dataset": dataset}


def read_environment(folder: Path) -> dict[str, Any]:
    """Versions and devices: shown as they are, so they may be anything; empty if not written."""
    return read_optional_object(folder / "environment.json").values


def shapes_of(identity: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Groups, images and captions of every block, by the name of its shape."""
    return {
        name: (count, *_parse_shape(name)) for name, count in identity["dataset"]["shapes"].items()
    }


def units_of(identity: dict[str, Any]) -> int:
    """How many units are selected or not: groups, or the images of a global matching."""
    shapes = shapes_of(identity).values()
    if identity["config"]["matching"] == "global":
        return sum(images for _, images, _ in shapes)
    return sum(groups for groups, _, _ in shapes)


def _parse_shape(name: str) -> tuple[int, int]:
    found = _SHAPE.fullmatch(name)
    assert found is not None  # as read
    return int(found[1]), int(found[2])


def _read_config(found: Fields) -> dict[str, Any]:
    for name in _REQUIRED:
        found.get(name)
    values = {**found.values, **_read_dataclass(TTMConfig, found)}
    known = {f.name: values[f.name] for f in fields(TTMConfig) if f.name in values}
    try:
        TTMConfig(**{**known, "memory": TTMConfig().memory})
    except InputError as error:
        raise found.place.error(f"{found.name}: {error}") from None
    if not values["lr_decay"] > 0:
        raise found.refuse("lr_decay", "a number above 0")
    return values


def _read_dataclass(kind: Any, found: Fields) -> dict[str, Any]:
    """The fields of a dataclass that are there, each with the type that its annotation says."""
    hints = get_type_hints(kind)
    return {f.name: _typed(hints[f.name], found, f.name) for f in fields(kind) if f.name in found}


def _typed(hint: Any, found: Fields, key: str) -> Any:
    if get_origin(hint) is Literal:
        return found.one_of(key, get_args(hint))
    if NoneType in get_args(hint):
        (other,) = (part for part in get_args(hint) if part is not NoneType)
        return _typed(other, found, key) if found.known(key) else None
    if is_dataclass(hint):
        inside = found.nested(key)
        return {**inside.values, **_read_dataclass(hint, inside)}
    getters = {
        bool: found.boolean,
        int: _any_integer(found),
        float: found.number,
        str: found.string,
    }
    return getters[hint](key)


def _any_integer(found: Fields) -> Any:
    return lambda key: found.integer(key, low=-1)


def _read_dataset(found: Fields, is_global: bool) -> dict[str, Any]:
    found.string("name")
    found.string("checksum")
    groups = found.integer("groups", low=1)
    shapes = found.nested("shapes")
    if not shapes.values:
        raise found.refuse("shapes", 'the number of groups of each shape, {"2x2": 400}')
    total, numbers = 0, 0
    for name in shapes.values:
        if not _SHAPE.fullmatch(name):
            raise found.place.error(f"{shapes.path(name)}: the name of a shape is like 2x2")
        count = shapes.integer(name, low=1)
        images, captions = _parse_shape(name)
        total, numbers = total + count, numbers + count * images * captions
    if total != groups:
        raise found.refuse("groups", f"{total}, as dataset.shapes says")
    if is_global and groups != 1:
        raise found.refuse("groups", "1, as the matching is global")
    most = allowed("SCORE_BYTES")
    # Without groups, what is kept of very many pairs grows with images and captions only.
    kept = 8 * len(STORED) * (images + captions) if is_global else 4 * numbers
    if min(kept, 4 * numbers) > most:
        raise shapes.place.error(
            f"{shapes.name} makes {4 * numbers} bytes of scores; at most {allowed('SCORE_BYTES')} "
            f"are read ({variable('SCORE_BYTES')} raises this)"
        )
    return dict(found.values)
