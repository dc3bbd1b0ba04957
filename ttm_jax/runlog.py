"""The run folder: everything that is known of a run, in files that people and programs can read.

    config.json        settings, seed, and fingerprints of model and data
    environment.json   versions, devices, commit
    metrics.jsonl      a line an iteration (iteration 0 is the model as it came)
    ledger.jsonl       for every iteration and unit: matching, margin, selected, right
    scores/            NNN_IxT.npz: scores of the model after iteration NNN
    checkpoints/       orbax, one an iteration
    matchings.jsonl    what the final model matches
    summary.json       the result
    groups.json, thumbnails.zip   what the groups look like, for reports (`run_pictures`)

An iteration's lines and scores are written before its checkpoint. So what a resumed run finds
beyond its checkpoint is dropped and made again, and nothing up to it can be missing.
"""

import platform
import subprocess
import sys
import zlib
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.files import append_lines, read_json, read_lines, write_atomic, write_json, write_text

_PACKAGES = ("ttm_jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "transformers")


class RunFolder:
    """Files of one run (one seed). `identity` is what must not change when it is resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def open(self, identity: dict[str, Any], *, resume: bool = True) -> None:
        """Start the folder, or make sure that it belongs to the same run."""
        config = self.path / "config.json"
        if config.exists():
            if not resume:
                raise InputError(
                    f"{self.path} already holds a run; resume it, or give another folder"
                )
            different = list(_differences(read_json(config), _plain(identity)))
            if different:
                raise InputError(
                    f"{self.path} holds another run; these differ: {'; '.join(different[:12])}. "
                    "Give another folder, or the settings it was started with"
                )
            return
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; expected a folder for the run")
        write_json(self.path / "environment.json", environment())
        write_json(config, _plain(identity))

    def rewind(self, iteration: int) -> None:
        """Forget what was written after this iteration (-1: everything)."""
        for name in ("metrics.jsonl", "ledger.jsonl"):
            path = self.path / name
            kept = [row for row in read_lines(path) if row["iteration"] <= iteration]
            if path.exists():
                write_text(path, "")
                append_lines(path, kept)
        for path in (self.path / "scores").glob("*.npz"):
            if int(path.name.split("_")[0]) > iteration:
                path.unlink()
        for name in ("matchings.jsonl", "summary.json"):
            (self.path / name).unlink(missing_ok=True)

    def add_metrics(self, row: dict[str, Any]) -> None:
        append_lines(self.path / "metrics.jsonl", [_plain(row)])

    def add_ledger(self, rows: list[dict[str, Any]]) -> None:
        append_lines(self.path / "ledger.jsonl", map(_plain, rows))

    def metrics(self) -> list[dict[str, Any]]:
        return list(read_lines(self.path / "metrics.jsonl"))

    def ledger(self) -> list[dict[str, Any]]:
        return list(read_lines(self.path / "ledger.jsonl"))

    def save_scores(self, iteration: int, dataset: GroupedDataset, scores: tuple) -> None:
        for block, values in zip(dataset.blocks, scores, strict=True):
            arrays = {"scores": values}
            if block.truth is not None:
                arrays["truth"] = block.truth
            rows, columns = block.shape
            path = self.path / "scores" / f"{iteration:03d}_{rows}x{columns}.npz"
            write_atomic(path, partial(np.savez, **arrays))

    def load_scores(self, iteration: int, dataset: GroupedDataset) -> tuple[np.ndarray, ...]:
        found = []
        for block in dataset.blocks:
            rows, columns = block.shape
            path = self.path / "scores" / f"{iteration:03d}_{rows}x{columns}.npz"
            with np.load(path, allow_pickle=False) as file:
                found.append(file["scores"])
        return tuple(found)

    def finish(self, matchings: list[dict[str, Any]], summary: dict[str, Any]) -> None:
        path = self.path / "matchings.jsonl"
        path.unlink(missing_ok=True)
        append_lines(path, map(_plain, matchings))
        write_json(self.path / "summary.json", _plain(summary))


def identity(
    config: TTMConfig,
    seed: int,
    dataset: GroupedDataset,
    source: str,
    params: Any,
    scoring: dict[str, Any],
) -> dict[str, Any]:
    """What makes two runs the same run: settings, seed, data and parameters to start from."""
    asked = {"scoring": scoring} if scoring else {}
    return {
        "config": asdict(config),
        "seed": seed,
        "model": {"source": source, "checksum": checksum(params), **asked},
        "dataset": {
            "name": dataset.name,
            "groups": len(dataset),
            "shapes": {f"{b.shape[0]}x{b.shape[1]}": len(b) for b in dataset.blocks},
            "checksum": dataset_checksum(dataset),
        },
    }


def checksum(leaves: dict[str, Any]) -> str:
    """CRC-32 over a flat dict of arrays, in the order of their names."""
    value = 0
    for name in sorted(leaves):
        value = zlib.crc32(np.ascontiguousarray(leaves[name]).tobytes(), value)
    return f"{value:08x}"


def dataset_checksum(dataset: GroupedDataset) -> str:
    """Over ids, captions and indices, and over the pixels where they are at hand; not the truth."""
    value = 0
    for block in dataset.blocks:
        value = zlib.crc32("\n".join(block.ids).encode(), value)
        value = zlib.crc32(block.image_index.tobytes() + block.text_index.tobytes(), value)
    if isinstance(dataset.captions, np.ndarray):
        value = zlib.crc32(np.ascontiguousarray(dataset.captions).tobytes(), value)
    else:
        value = zlib.crc32("\n".join(dataset.captions).encode(), value)
    for image in dataset.images:
        if isinstance(image, np.ndarray):
            value = zlib.crc32(np.ascontiguousarray(image).tobytes(), value)
    return f"{value:08x}"


def environment() -> dict[str, Any]:
    """Versions, devices and commit: what a reader needs to reproduce the run."""
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
    """The commit of the source tree, if the package lies in one; "+" marks local changes."""
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


def _plain(value: Any) -> Any:
    """The same in types that JSON knows; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _differences(old: Any, new: Any, name: str = "") -> Any:
    """Fields that are not the same, as "name: old -> new"."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}".lstrip("."))
    elif old != new:
        yield f"{name}: {old} -> {new}"
