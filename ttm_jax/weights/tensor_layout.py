"""Table-driven conversion between two naming and layout conventions for the same parameters.

A `Rule` states which axes of our array form each axis of theirs. Reading and writing both follow
from that one statement and only move values, so a round trip is bit-exact.
"""

from dataclasses import dataclass
from math import prod
from types import EllipsisType

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from ttm_jax.errors import InputError
from ttm_jax.weights.checkpoint_files import (
    Params,
    Shape,
    Tensors,
    empty_for_device,
    read_float,
)

Axes = tuple[tuple[int, ...], ...]

LAYER = "{i}"  # placeholder for the layer number in `Rule.theirs`
_BLOCK = 128
_LISTED = 10  # how many names of each kind an error lists


@dataclass(frozen=True)
class Rule:
    """One of our parameters and where it is located in their format.

    `axes[k]` are our axes that, flattened together, form axis k of theirs; our axes that are not
    named have size 1. With a layer number in `theirs`, our array has an additional leading axis,
    the layer. With `part`, ours is one of so many equal parts of their rows: (0, 3) is the first
    third (PyTorch packs query, key and value).
    """

    theirs: str
    ours: str
    axes: Axes
    part: tuple[int, int] | None = None


@dataclass(frozen=True)
class Slot:
    """One of their tensors and the part of our array that it fills."""

    name: str
    shape: Shape  # of their tensor
    ours: str
    layer: int | None
    block: Shape  # of our array, without the layer axis
    rule: Rule

    def read(self, theirs: np.ndarray) -> np.ndarray:
        """Our array, as a view of theirs where numpy allows."""
        split = theirs[self._rows()].reshape([self.block[axis] for axis in self._order()])
        return split.transpose(np.argsort(self._order()))

    def read_into(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        if self._is_transposition():
            theirs = theirs[self._rows()]
            copy_transposed(ours.reshape(theirs.shape[::-1]), theirs)
        else:
            ours[...] = self.read(theirs)

    def write_into(self, theirs: np.ndarray, ours: np.ndarray) -> None:
        rows = theirs[self._rows()]
        if self._is_transposition():
            copy_transposed(rows, ours.reshape(rows.shape[::-1]))
        else:
            rows[...] = ours.transpose(self._order()).reshape(rows.shape)

    def _order(self) -> list[int]:
        """Our axes in the order in which theirs name them; unnamed axes come last."""
        named = [axis for group in self.rule.axes for axis in group]
        return named + [axis for axis in range(len(self.block)) if axis not in named]

    def _is_transposition(self) -> bool:
        """Whether ours, flattened to two axes, is theirs transposed: true for every kernel."""
        axes = self.rule.axes
        return len(axes) == 2 and axes[1] + axes[0] == tuple(range(len(self.block)))

    def _rows(self) -> slice | EllipsisType:
        if self.rule.part is None:
            return ...
        part, parts = self.rule.part
        rows = self.shape[0] // parts
        return slice(part * rows, (part + 1) * rows)


def expand(rules: list[Rule], shapes: dict[str, Shape]) -> list[Slot]:
    """Every tensor that their format must have, for our parameters of these shapes."""
    slots = []
    for rule in rules:
        stacked = LAYER in rule.theirs
        block = shapes[rule.ours][1:] if stacked else shapes[rule.ours]
        shape = _joined(rule.axes, block)
        if rule.part is not None:
            shape = (rule.part[1] * shape[0], *shape[1:])
        for layer in range(shapes[rule.ours][0]) if stacked else [None]:
            name = rule.theirs.replace(LAYER, str(layer))
            slots.append(Slot(name, shape, rule.ours, layer, block, rule))
    return slots


def to_ours(rules: list[Rule], shapes: dict[str, Shape], tensors: Tensors, where: str) -> Params:
    """Read every tensor directly into its place in our tree, as float32."""
    slots = expand(rules, shapes)
    check({slot.name: slot.shape for slot in slots}, tensors.shapes, where)
    flat: dict[str, np.ndarray] = {}
    for slot in slots:
        theirs = read_float(tensors, slot.name, where)
        if not np.isfinite(theirs).all():
            raise InputError(f"{where}: {slot.name} has NaN or infinite values; download it again")
        if slot.ours not in flat:
            flat[slot.ours] = empty_for_device(shapes[slot.ours])
        target = flat[slot.ours]
        slot.read_into(target if slot.layer is None else target[slot.layer], theirs)
    return unflatten_dict(flat, sep="/")


def to_theirs(rules: list[Rule], shapes: dict[str, Shape], params: Params) -> dict[str, np.ndarray]:
    """Convert our parameters to their tensors, contiguous and in float32."""
    flat = flatten_dict(params, sep="/")
    check(shapes, {path: np.shape(leaf) for path, leaf in flat.items()}, "the parameters to save")
    host = {path: np.asarray(leaf, np.float32) for path, leaf in flat.items()}
    tensors: dict[str, np.ndarray] = {}
    for slot in expand(rules, shapes):
        ours = host[slot.ours] if slot.layer is None else host[slot.ours][slot.layer]
        if slot.name not in tensors:
            tensors[slot.name] = np.empty(slot.shape, np.float32)
        slot.write_into(tensors[slot.name], ours)
    return tensors


def copy_transposed(target: np.ndarray, source: np.ndarray) -> None:
    """target[...] = source.T by blocks: twice as fast as numpy, whose rows miss the cache."""
    for i in range(0, source.shape[0], _BLOCK):
        for j in range(0, source.shape[1], _BLOCK):
            block = source[i : i + _BLOCK, j : j + _BLOCK]
            target[j : j + _BLOCK, i : i + _BLOCK] = block.T


def check(expected: dict[str, Shape], found: dict[str, Shape], where: str) -> None:
    """Raise one error that lists everything that does not match."""
    missing = [name for name in expected if name not in found]
    unused = [name for name in found if name not in expected]
    misshaped = [
        f"{name} has shape {list(found[name])}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    kinds = [("missing", missing), ("not used", unused), ("of the wrong shape", misshaped)]
    problems = [f"{len(names)} {kind} ({_listed(names)})" for kind, names in kinds if names]
    if problems:
        raise InputError(f"{where}: the tensors do not match the model: {'; '.join(problems)}")


def _listed(names: list[str]) -> str:
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _joined(axes: Axes, block: Shape) -> Shape:
    return tuple(prod(block[axis] for axis in group) for group in axes)
