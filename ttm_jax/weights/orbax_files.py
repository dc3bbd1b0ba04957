"""Read any orbax checkpoint as named numpy arrays.

Arrays are restored to the host with the shapes stored in the checkpoint, a few at a time. The
devices and hosts that wrote it need not exist: a laptop can read a checkpoint from a TPU pod.
"""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from ttm_jax.errors import InputError
from ttm_jax.weights.checkpoint_files import Tensors
from ttm_jax.weights.orbax_failures import only_the_error

_TREE = "_METADATA"  # orbax writes this file next to the arrays of every tree
_STEP = re.compile(r"(?:.*\D)?(\d+)")


_PORTION = 2**28  # bytes restored at a time


@dataclass(frozen=True)
class _Array:
    """Location of an array: the folder of its tree, the tree's metadata, and its own metadata."""

    folder: Path
    tree: Any
    leaf: Any

    @property
    def bytes(self) -> int:
        return math.prod(self.leaf.shape) * np.dtype(self.leaf.dtype).itemsize


def is_orbax(path: Path) -> bool:
    """Whether this is a run folder, a folder of steps, a step, or one tree of a step."""
    return path.is_dir() and (_is_tree(path) or bool(_trees(path)) or bool(steps(path)))


def steps(path: Path) -> dict[int, Path]:
    """The steps of a run folder or of a folder of steps, in ascending order."""
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    found = {
        int(match[1]): child
        for child in folder.iterdir()
        if child.is_dir() and (match := _STEP.fullmatch(child.name)) and _trees(child)
    }
    return dict(sorted(found.items()))


def find_step(path: Path, step: int | None = None) -> Path:
    """The folder of a step, by default the last one."""
    if _is_tree(path) or _trees(path):
        return path
    every = steps(path)
    if not every or (step is not None and step not in every):
        have = ", ".join(map(str, every)) or "none"
        raise InputError(
            f"{path} has no checkpoint {'' if step is None else step}; available: {have}"
        )
    return every[max(every) if step is None else step]


@contextmanager
def opened(path: Path) -> Iterator[Tensors]:
    """The arrays of a step; with several trees, each name starts with the name of its tree."""
    path = path.absolute()  # orbax does not read from relative paths
    trees = {"": path} if _is_tree(path) else _trees(path)
    if not trees:
        raise InputError(f"{path} is not a step of an orbax checkpoint: it has no {_TREE}")
    prefix = len(trees) > 1
    found: dict[str, _Array] = {}
    for tree_name, folder in trees.items():
        for keys, leaf, tree in _arrays(folder):
            name = "/".join([tree_name, *keys] if prefix else keys)
            found[name] = _Array(folder, tree, leaf)
    with ocp.PyTreeCheckpointer() as reader:
        shapes = {name: tuple(array.leaf.shape) for name, array in found.items()}
        yield Tensors(shapes, _Reader(reader, found).read)


def record(path: Path) -> dict[str, Any]:
    """The JSON record stored with a step; empty if there is none."""
    for child in sorted(path.iterdir()):
        if child.is_dir() and (child / "metadata").is_file() and not _is_tree(child):
            with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as reader:
                return dict(reader.restore(child))
    return {}


def _is_tree(path: Path) -> bool:
    return (path / _TREE).is_file()


def _trees(step: Path) -> dict[str, Path]:
    if not step.is_dir():
        return {}
    return {child.name: child for child in sorted(step.iterdir()) if _is_tree(child)}


def _arrays(folder: Path) -> Iterator[tuple[list[str], Any, Any]]:
    """Path and metadata of every array, and its tree; leaves that are not arrays are skipped."""
    try:
        with only_the_error():
            metadata = ocp.PyTreeCheckpointHandler().metadata(folder)
    except Exception as error:  # orbax, tensorstore and json raise many exception types
        raise InputError(
            f"{folder} cannot be read as an orbax checkpoint: {_reason(error)}"
        ) from error
    tree = getattr(metadata, "tree", metadata)
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=_is_array)
    for path, leaf in leaves:
        if _is_array(leaf):
            yield [_key(part) for part in path], leaf, tree


def _is_array(leaf: Any) -> bool:
    return getattr(leaf, "shape", None) is not None and getattr(leaf, "dtype", None) is not None


class _Reader:
    """Restores each array together with those that follow it in name order, because one call to
    orbax takes much longer than reading a small array. Arrays are released once returned."""

    def __init__(self, reader: Any, arrays: dict[str, _Array]) -> None:
        self._reader, self._arrays, self._names = reader, arrays, sorted(arrays)
        self._restored: dict[str, np.ndarray] = {}

    def read(self, name: str) -> np.ndarray:
        if name not in self._restored:
            self._restored = self._restore(self._portion(name))
        return self._restored.pop(name)

    def _portion(self, name: str) -> list[str]:
        """The names from `name` on, in the same tree, that fit in one portion; at least one."""
        portion: list[str] = []
        size = 0
        for other in self._names[self._names.index(name) :]:
            array = self._arrays[other]
            size += array.bytes
            if portion and (size > _PORTION or array.folder != self._arrays[name].folder):
                break
            portion.append(other)
        return portion

    def _restore(self, names: list[str]) -> dict[str, np.ndarray]:
        """Restore only these arrays; every other leaf of the tree stays on disk."""
        wanted = {id(self._arrays[name].leaf): name for name in names}
        folder, tree = self._arrays[names[0]].folder, self._arrays[names[0]].tree
        item = jax.tree.map(
            lambda leaf: leaf if id(leaf) in wanted else ocp.PLACEHOLDER, tree, is_leaf=_is_array
        )
        as_numpy = ocp.RestoreArgs(restore_type=np.ndarray)
        arguments = jax.tree.map(lambda leaf: as_numpy, tree, is_leaf=_is_array)
        try:
            with only_the_error():
                restored = self._reader.restore(
                    folder, args=ocp.args.PyTreeRestore(item=item, restore_args=arguments)
                )
        except Exception as error:
            raise InputError(f"{folder} is damaged: {_reason(error)}") from error
        before = jax.tree.leaves(tree, is_leaf=_is_array)
        after = jax.tree.leaves(restored)
        return {
            wanted[id(leaf)]: np.asarray(array)
            for leaf, array in zip(before, after, strict=True)
            if id(leaf) in wanted
        }


def _key(part: Any) -> str:
    return str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", part))))


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
