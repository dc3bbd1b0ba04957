"""What is in a checkpoint of any kind: a tree of arrays with shapes, types, sizes and norms."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ttm_jax.errors import InputError
from ttm_jax.load import SMALL
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.runs.locate import run_of
from ttm_jax.runs.read.fields import Fields, Place
from ttm_jax.weights import hub, npz_files, orbax_files, safetensors_files
from ttm_jax.weights.checkpoint_files import Tensors

Kind = Literal["orbax", "huggingface", "npz"]


@dataclass(frozen=True)
class Leaf:
    """One array. `norm` is its Euclidean norm; numbers that are not finite are only counted."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    norm: float
    not_finite: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Node:
    """A line of the tree: an array, or all arrays below a name."""

    name: str
    depth: int
    leaves: tuple[Leaf, ...]
    shown: bool
    """Whether what is below it is shown as well."""

    @property
    def leaf(self) -> Leaf | None:
        return self.leaves[0] if len(self.leaves) == 1 and not self.shown else None

    @property
    def count(self) -> int:
        return sum(leaf.count for leaf in self.leaves)

    @property
    def bytes(self) -> int:
        return sum(leaf.bytes for leaf in self.leaves)

    @property
    def norm(self) -> float:
        return math.sqrt(sum(leaf.norm**2 for leaf in self.leaves))

    @property
    def dtypes(self) -> str:
        return ", ".join(sorted({leaf.dtype for leaf in self.leaves}))


def locate(source: str) -> Path:
    """A path that exists, a model of the package, or the local copy of a hub id.

    The folder that `ttm adapt` writes stands for the run inside it.
    """
    path = Path(source).expanduser()
    if not path.exists():
        return SMALL[source] if source in SMALL else hub.resolve(source)
    if path.is_dir() and not orbax_files.is_orbax(path) and not any(path.glob("*.safetensors*")):
        return run_of(path) or path
    return path


def kind_of(path: Path) -> Kind:
    if path.suffix == ".npz":
        return "npz"
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if orbax_files.is_orbax(path):
        return "orbax"
    if path.is_dir() and any(path.glob("*.safetensors*")):
        return "huggingface"
    raise InputError(
        f"{path} is no checkpoint that is known here: expected a run folder or an orbax folder, a "
        "Hugging Face folder with safetensors, or a big_vision .npz"
    )


@contextmanager
def open_arrays(path: Path, step: int | None = None) -> Iterator[Tensors]:
    """The arrays of a checkpoint of any kind, names with slashes; read one at a time."""
    kind = kind_of(path)
    if step is not None and kind != "orbax":
        raise InputError(f"{path} is one checkpoint and has no steps; leave out the step")
    if kind == "orbax":
        with orbax_files.opened(orbax_files.find_step(path, step)) as tensors:
            yield tensors
    elif kind == "npz":
        with npz_files.opened(path) as tensors:
            yield tensors
    else:
        with safetensors_files.opened(path) as tensors:
            names = {name.replace(".", "/"): name for name in tensors.shapes}
            shapes = {ours: tensors.shapes[theirs] for ours, theirs in names.items()}
            yield Tensors(shapes, lambda name: tensors.read(names[name]))


def read_leaves(path: Path, step: int | None = None) -> list[Leaf]:
    """Every array, in the order of the names; each is read once and let go."""
    with open_arrays(path, step) as tensors:
        return [make_leaf(name, tensors.read(name)) for name in sorted(tensors.shapes)]


def make_leaf(name: str, array: np.ndarray) -> Leaf:
    if array.dtype.kind in "SUO":  # npz files may carry texts
        return Leaf(name, array.shape, array.dtype.name, array.nbytes, 0.0, 0)
    values = array.astype(np.float64)
    finite = np.isfinite(values)
    bad = int(values.size - np.count_nonzero(finite))
    norm = float(np.linalg.norm(values[finite] if bad else values.reshape(-1)))
    return Leaf(name, array.shape, array.dtype.name, array.nbytes, norm, bad)


def nodes(leaves: Sequence[Leaf], depth: int) -> list[Node]:
    """The lines of the tree down to `depth` (0: everything), parents before their children."""
    return list(_below("", list(leaves), 0, depth))


def _below(prefix: str, leaves: list[Leaf], level: int, depth: int) -> Iterator[Node]:
    groups: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        groups.setdefault(leaf.name.removeprefix(prefix).split("/")[0], []).append(leaf)
    for name, members in groups.items():
        whole = f"{prefix}{name}"
        if len(members) == 1 and members[0].name == whole:
            yield Node(name, level, tuple(members), shown=False)
            continue
        deeper = not depth or level + 1 < depth
        yield Node(name, level, tuple(members), shown=deeper)
        if deeper:
            yield from _below(f"{whole}/", members, level + 1, depth)


def as_json(path: Path, leaves: Sequence[Leaf]) -> dict[str, Any]:
    return {
        "path": str(path),
        "kind": kind_of(path),
        "arrays": len(leaves),
        "parameters": sum(leaf.count for leaf in leaves),
        "bytes": sum(leaf.bytes for leaf in leaves),
        "leaves": [
            {
                "name": leaf.name,
                "shape": list(leaf.shape),
                "dtype": leaf.dtype,
                "bytes": leaf.bytes,
                "norm": leaf.norm,
                "not_finite": leaf.not_finite,
            }
            for leaf in leaves
        ],
    }


def stored_scores(path: Path) -> list[dict[str, Any]]:
    """What was stored with each step of a run or of a folder of steps."""
    every = orbax_files.steps(path) if path.is_dir() else {}
    if not every:
        raise InputError(f"{path} has no steps with scores; give a run folder or its checkpoints")
    rows = []
    for step, folder in every.items():
        try:
            content = orbax_files.record(folder)
        except Exception as error:  # orbax and json raise many kinds
            raise Place(folder).error(f"what was stored with it is damaged: {error}") from None
        content.pop("checksums", None)
        _check_record(Fields(content, Place(folder)))
        rows.append({"step": step, **content})
    return rows


def _check_record(found: Fields) -> None:
    """What is shown of a record: tau and the percents of its metrics."""
    if found.known("tau"):
        found.number("tau")
    metrics = found.nested("metrics") if found.known("metrics") else Fields({}, found.place)
    for name in metrics.values:
        if name not in METRICS:
            raise found.place.error(f"{metrics.path(name)} is not a metric")
        metrics.nested(name).number("percent", 0.0, 100.0)
