"""The run folder: everything known about a run, in human- and machine-readable files.

    config.json        settings, seed, and fingerprints of model and data
    environment.json   versions, devices, commit
    metrics.jsonl      one line per iteration (iteration 0 is the model before any training)
    ledger.jsonl       one line per iteration and unit: matching, margin, selected, right
    scores/            NNN_IxT.npz: scores of the model after iteration NNN; of very many pairs
                       without groups the assignment and each image's best two captions
    checkpoints/       orbax, one checkpoint per iteration
    matchings.jsonl    matchings of the final model
    summary.json       the result; written last
    groups.json, thumbnails.zip   contents of the groups, for reports (`pictures.py`)

The scores and lines of an iteration are written before its checkpoint. The checkpoint contains all
lines of metrics.jsonl up to it and a checksum of the scores. A resumed run therefore relies on the
checkpoint only: it drops everything written later, rebuilds missing lines, and rejects scores that
differ from those originally written.
"""

import math
import platform
import subprocess
import sys
import zipfile
import zlib
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point
from ttm_jax.files import (
    append_lines,
    check_name,
    file_problem,
    read_json,
    read_lines,
    read_whole_lines,
    write_atomic,
    write_json,
    write_lines,
)
from ttm_jax.matching.large.pair_scores import PairScores
from ttm_jax.runs.identity import differences, plain, scores_checksum

# What numpy and zipfile raise for a file that is not, or no longer, an array.
_NOT_SCORES = (OSError, ValueError, KeyError, EOFError, RuntimeError, OverflowError, SyntaxError,
               MemoryError, zipfile.BadZipFile, zlib.error)  # fmt: skip
_HEADER = 1024  # bytes before the numbers of an array, at most
_PACKAGES = ("ttm_jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "transformers")


class RunFolder:
    """The files of one run (one seed). `identity` must not change when the run is resumed."""

    def __init__(self, path: Path) -> None:
        check_name(path)
        self.path = path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def open(self, identity: dict[str, Any], *, resume: bool = True) -> None:
        """Create the folder, or check that it belongs to the same run."""
        config = self.path / "config.json"
        if config.exists():
            if not resume:
                raise InputError(
                    f"{self.path} already holds a run; resume it, or use another folder"
                )
            different = list(differences(read_json(config), identity))
            if different:
                raise InputError(
                    f"{self.path} holds another run; these differ: {'; '.join(different[:12])}. "
                    "Use another folder, or the settings it was started with"
                )
            return
        write_json(self.path / "environment.json", environment())
        write_json(config, identity)
        fault_point("config written")

    def rewind(self, rows: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> bool:
        """Rewind to the iterations of `rows`; return whether any of their lines were missing or
        changed.

        Every file is replaced atomically, and no file is derived from one that is replaced later: a
        crash in between is repaired by rewinding again.
        """
        last = rows[-1]["iteration"] if rows else -1
        changed = False
        for name, kept in (("metrics.jsonl", rows), ("ledger.jsonl", ledger)):
            path = self.path / name
            written = [row for row in read_whole_lines(path) if _iteration(row) <= last]
            if written != kept:
                changed = True
            if kept or path.exists():
                write_lines(path, kept)
            fault_point(f"{name} rewound")
        for path in (self.path / "scores").glob("*.npz"):
            number = path.name.split("_")[0]
            if not number.isdigit() or int(number) > last:
                path.unlink()
        fault_point("scores rewound")
        for name in ("matchings.jsonl", "summary.json"):
            (self.path / name).unlink(missing_ok=True)
        return changed

    def add_metrics(self, row: dict[str, Any]) -> None:
        append_lines(self.path / "metrics.jsonl", [plain(row)])
        fault_point("metrics appended")

    def add_ledger(self, rows: list[dict[str, Any]]) -> None:
        append_lines(self.path / "ledger.jsonl", map(plain, rows))
        fault_point("ledger appended")

    def metrics(self) -> list[dict[str, Any]]:
        return list(read_lines(self.path / "metrics.jsonl"))

    def ledger(self) -> list[dict[str, Any]]:
        return list(read_lines(self.path / "ledger.jsonl"))

    def save_scores(self, iteration: int, dataset: GroupedDataset, scores: tuple) -> None:
        for block, values in zip(dataset.blocks, scores, strict=True):
            large = isinstance(values, PairScores)
            arrays = values.arrays() if large else {"scores": values}
            if block.truth is not None:
                arrays["truth"] = block.truth
            path = self._scores_file(iteration, block.shape)
            write_atomic(path, partial(np.savez, **arrays))
        fault_point("scores written")

    def load_scores(
        self, iteration: int, dataset: GroupedDataset, checksum: str
    ) -> tuple[Any, ...]:
        """Load the scores of an iteration and check that they are those originally written."""
        found = []
        for block in dataset.blocks:
            path = self._scores_file(iteration, block.shape)
            try:
                found.append(_read_scores(path, 8 * len(block.ids) * math.prod(block.shape)))
            except _NOT_SCORES as error:
                raise InputError(
                    f"{path} is missing or damaged, and the run cannot be resumed without it: "
                    "restore the file, or start again in another folder"
                ) from error
        if scores_checksum(*found) != checksum:
            raise InputError(
                f"{path.parent} does not hold the scores that iteration {iteration} of this run "
                "wrote: restore the files, or start again in another folder"
            )
        return tuple(found)

    def _scores_file(self, iteration: int, shape: tuple[int, int]) -> Path:
        rows, columns = shape
        return self.path / "scores" / f"{iteration:03d}_{rows}x{columns}.npz"

    def finish(self, matchings: list[dict[str, Any]], summary: dict[str, Any]) -> None:
        """Write the result. The summary is written last: if it exists, the run is complete."""
        write_lines(self.path / "matchings.jsonl", plain(matchings))
        fault_point("matchings written")
        write_json(self.path / "summary.json", plain(summary))


def _read_scores(path: Path, most: int) -> Any:
    """The array "scores" of a file, or what is kept of too many pairs, if it takes at most so many
    bytes."""
    problem = file_problem(path)  # a pipe would be waited for
    if problem is not None:
        raise ValueError(problem)
    with zipfile.ZipFile(path) as archive:
        known = [info for info in archive.infolist() if info.filename != "truth.npy"]
        if sum(info.file_size for info in known) > most + _HEADER * len(known):
            raise ValueError("it unpacks to more than the scores of this run")
    with np.load(path, allow_pickle=False) as file:
        return file["scores"] if "scores" in file else PairScores.from_arrays(dict(file))


def _iteration(row: dict[str, Any]) -> int:
    """The iteration of a line, or 0 if it has none, so that the line counts as changed."""
    value = row.get("iteration") if isinstance(row, dict) else None
    return value if isinstance(value, int) else 0


def environment() -> dict[str, Any]:
    """Versions, devices and commit, for reproducing the run."""
    import jax

    versions: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "versions": versions,
        "backend": jax.default_backend(),
        "devices": [device.device_kind for device in jax.devices()],
        "processes": jax.process_count(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of the source tree that contains the package, if any; "+" means local changes."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "HEAD")
        return commit + ("+" if _git(here, "status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
