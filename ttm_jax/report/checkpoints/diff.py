"""How far the parameters of one checkpoint are from those of another, layer by layer.

Checkpoints of the same kind are compared array by array as they are read. Those of different kinds
(a Hugging Face folder and a run, say) are both brought into this package's tree first.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flax.traverse_util import flatten_dict

from ttm_jax.errors import InputError
from ttm_jax.report.checkpoints.tree import kind_of, open_arrays
from ttm_jax.training.trainable import merge_params
from ttm_jax.weights import big_vision, idefics3, model_folders
from ttm_jax.weights.checkpoint_files import Tensors

_OPTIMIZER = re.compile(r"(^|/)(optimizer|opt_state|opt)/")
_STACKED = re.compile(r"((?:en|de)coderblock)/")  # all layers in one array, the layer first
_LAYER = re.compile(
    r"/(?:layers?|(?:res)?blocks?|h)/(\d+)/|(?:encoderblock|layers?|blocks?)_(\d+)/"
)
_TOWERS = {"img": "image", "vision_model": "image", "txt": "text", "text_model": "text"}
_TOWERS |= {"visual": "image", "transformer": "text"}
_NAMED = 5


@dataclass(frozen=True)
class Change:
    """One array, or one layer of a stacked array. `layer` is None outside the blocks of a tower."""

    name: str
    tower: str
    layer: int | None
    before: float
    """Norm of the old values."""
    moved: float
    """Norm of the difference."""

    @property
    def relative(self) -> float:
        if self.before == 0:
            return math.inf if self.moved else 0.0
        return self.moved / self.before


@dataclass(frozen=True)
class Drift:
    """All arrays of one layer of a tower together; `layer` None: what is outside the blocks."""

    tower: str
    layer: int | None
    relative: float


def diff(a: Path, b: Path, step_a: int | None = None, step_b: int | None = None) -> list[Change]:
    """Every change from `a` to `b`, the relatively largest first; optimizer state is left out."""
    with open_arrays(a, step_a) as old, open_arrays(b, step_b) as new:
        before, after = _parameters(old), _parameters(new)
        if before.keys() == after.keys():
            changes = [
                change
                for name in sorted(before)
                for change in _changes(name, old.read(before[name]), new.read(after[name]), a, b)
            ]
            return _largest_first(changes)
    return _largest_first(_converted_changes(a, b, step_a, step_b))


def drift(changes: Sequence[Change]) -> list[Drift]:
    """The relative change of every layer of every tower, in the order of depth."""
    sums: dict[tuple[str, int | None], tuple[float, float]] = {}
    for change in changes:
        key = (change.tower, change.layer)
        before, moved = sums.get(key, (0.0, 0.0))
        sums[key] = (before + change.before**2, moved + change.moved**2)
    ordered = sorted(sums, key=lambda key: (key[0], key[1] is None, key[1] or 0))
    return [
        Drift(tower, layer, math.sqrt(sums[tower, layer][1] / (sums[tower, layer][0] or math.inf)))
        for tower, layer in ordered
    ]


def _parameters(tensors: Tensors) -> dict[str, str]:
    """Names without the prefix of a whole state -> names in the file; no optimizer, no texts."""
    names = [name for name in tensors.shapes if not _OPTIMIZER.search(f"/{name}")]
    inside = [name for name in names if name.startswith(("params/", "lora/"))]
    chosen = inside or names
    return {name.removeprefix("params/"): name for name in chosen}


def _converted_changes(
    a: Path, b: Path, step_a: int | None, step_b: int | None
) -> Iterator[Change]:
    before, after = _ours(a, step_a), _ours(b, step_b)
    lacking, extra = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    if lacking or extra:
        raise InputError(
            f"{a} and {b} are not checkpoints of the same model: only the first has "
            f"{_some(lacking)}; only the second has {_some(extra)}"
        )
    for name in sorted(before):
        yield from _changes(name, before[name], after[name], a, b)


def _ours(path: Path, step: int | None) -> dict[str, np.ndarray]:
    """All parameters in this package's tree, adapters merged."""
    kind = kind_of(path)
    if kind == "huggingface":
        if idefics3.is_idefics3(path):
            return flatten_dict(idefics3.load(path)[1], sep="/")
        return flatten_dict(model_folders.load(path).params, sep="/")
    if kind == "npz":
        return flatten_dict(big_vision.load(path).params, sep="/")
    with open_arrays(path, step) as tensors:
        names = _parameters(tensors)
        leaves = {ours: tensors.read(theirs) for ours, theirs in names.items()}
    if any(name.startswith("lora/") for name in leaves):
        return {
            k: np.asarray(v) for k, v in flatten_dict(merge_params(leaves, {}), sep="/").items()
        }
    return leaves


def _changes(name: str, old: np.ndarray, new: np.ndarray, a: Path, b: Path) -> Iterator[Change]:
    if old.shape != new.shape:
        raise InputError(
            f"{name} has shape {list(old.shape)} in {a} and {list(new.shape)} in {b}; "
            "they are not checkpoints of the same model"
        )
    before, after = old.astype(np.float64), new.astype(np.float64)
    tower, layer = _place(name)
    if layer is None and _STACKED.search(name) and before.ndim:
        for number in range(len(before)):
            label = _STACKED.sub(rf"\1[{number}]/", name)
            yield _change(label, tower, number, before[number], after[number])
    else:
        yield _change(name, tower, layer, before, after)


def _change(
    name: str, tower: str, layer: int | None, before: np.ndarray, after: np.ndarray
) -> Change:
    norm = float(np.linalg.norm(before.reshape(-1)))
    return Change(name, tower, layer, norm, float(np.linalg.norm((after - before).reshape(-1))))


def _place(name: str) -> tuple[str, int | None]:
    """Tower and layer of a parameter, from its name."""
    parts = name.removeprefix("lora/").split("/")
    match = _LAYER.search(name)
    layer = None if match is None else int(match[1] or match[2])
    tower = next((_TOWERS[part] for part in parts if part in _TOWERS), None)
    return tower or (parts[0] if layer is not None else "rest"), layer


def _largest_first(changes: Sequence[Change] | Iterator[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (-change.relative, change.name))


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED]) or "nothing"
    return f"{shown}, ... ({len(names)} in all)" if len(names) > _NAMED else shown
