"""Checkpoints of runs, one step per iteration.

Each step holds a tree of arrays and a JSON record. The record names the run and the step it belongs
to and has a checksum of every array, so that a damaged or misplaced checkpoint is detected and the
previous one is used.
"""

import errno
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from ttm_jax import bucket_storage
from ttm_jax.errors import InputError
from ttm_jax.fault_points import fault_point
from ttm_jax.files import check_name
from ttm_jax.hosts import exchange, this_host
from ttm_jax.runs.failed_save import one_error
from ttm_jax.runs.single_process_orbax import as_only_process
from ttm_jax.weights.orbax_failures import check_tree, only_the_error

Tree = Any
_DIGESTS = "checksums"
_RUN, _STEP = "run", "step"
# Exceptions that orbax, tensorstore, zstd and json raise for a broken file.
_DAMAGE = (ValueError, KeyError, IndexError, EOFError, RecursionError, struct.error, zlib.error,
           FileNotFoundError, NotADirectoryError, IsADirectoryError)  # fmt: skip
# tensorstore reports these as ValueError; they say nothing about the file.
_NOT_DAMAGE = ("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNIMPLEMENTED")

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


class CheckpointWarning(UserWarning):
    """A checkpoint could not be used, and an older one was used instead."""


class Checkpoints:
    """The checkpoints of a run: keeps the newest `keep` of them (0: all), and those to spare."""

    def __init__(self, folder: Path, keep: int = 0, run: str = "") -> None:
        """`run` is the fingerprint of the run; checkpoints of other runs are rejected."""
        self.folder, self.keep, self.run = _place(folder), keep, run
        if this_host.is_alone():  # orbax would do it for all processes
            self.folder.mkdir(parents=True, exist_ok=True)
        with only_the_error(), as_only_process():
            self._manager = ocp.CheckpointManager(
                self.folder,
                item_names=("state", "record"),
                options=ocp.CheckpointManagerOptions(
                    create=not this_host.is_alone(),
                    cleanup_tmp_directories=this_host.is_first(),
                    enable_async_checkpointing=False,
                    multiprocessing_options=self._processes(),
                ),
            )

    def _processes(self) -> ocp.options.MultiprocessingOptions:
        """Who takes part: all hosts, or this one with a run of its own."""
        if not this_host.is_alone():
            return ocp.options.MultiprocessingOptions()
        return ocp.options.MultiprocessingOptions(0, {0}, f"ttm_jax_{jax.process_index()}")

    def save(
        self, step: int, state: Tree, record: dict[str, Any], spare: frozenset[int] = frozenset()
    ) -> None:
        """Save a checkpoint; it appears under its final name only when it is complete.

        Older ones are deleted afterwards, but not the steps to `spare`.
        """
        record = {**record, _RUN: self.run, _STEP: step, _DIGESTS: checksums(state)}
        if this_host.is_alone():  # orbax takes arrays of all processes, or of none
            state = jax.tree.map(np.asarray, state)
        try:
            with only_the_error(), one_error(self.folder, step), as_only_process():
                self._manager.save(
                    step,
                    args=ocp.args.Composite(
                        state=ocp.args.StandardSave(state), record=ocp.args.JsonSave(record)
                    ),
                    force=True,
                )
                self._manager.wait_until_finished()
        except (OSError, ValueError) as error:
            reason = _why_not_written(error)
            if reason is None:
                raise
            raise InputError(
                f"cannot write {self.folder / str(step)}: {reason}; the earlier checkpoints are "
                "intact. Free some space, or see why, and rerun the same command to resume"
            ) from error
        fault_point(f"{self.folder.name} saved")
        older = self.steps()[: -self.keep] if self.keep else []
        for old in set(older) - spare:
            self.delete(old)

    def restore_latest(self, like: Tree) -> tuple[int, Tree, dict[str, Any]] | None:
        """Restore the newest intact checkpoint: its step, state and record.

        The state has the shapes and shardings of `like`, a tree of arrays or of ShapeDtypeStruct.
        Newer checkpoints that are damaged are renamed with a warning, because their steps will be
        saved again.
        """
        for step in sorted(self._manager.all_steps(), reverse=True):
            damage = None
            try:
                with only_the_error(), as_only_process():
                    state, record = self._restore(step, like)
            except Exception as error:  # orbax wraps what it meets in a plain Exception
                reason = _first_line(error)
                if _is_damage(error):
                    damage = reason
                elif _chain_has(error, (OSError,)) or _names_no_damage(error):
                    path = self.folder / str(step)
                    raise InputError(f"cannot read {path}: {reason}") from error
                else:
                    raise
            # All hosts take the same checkpoint, also if only one of them met the damage.
            damages = [found for found in exchange.from_all(damage) if found is not None]
            if damages:
                self._set_aside(step, damages[0])
                continue
            if self.run and record.get(_RUN) != self.run:
                raise InputError(
                    f"{self.folder / str(step)} was written by another run (other settings, model "
                    "or data): use another folder, or restore the config.json it belongs to"
                )
            return step, state, record
        return None

    def _set_aside(self, step: int, reason: str) -> None:
        """Rename a damaged checkpoint; it is kept for inspection."""
        place = self.folder.parent / "damaged" / f"{self.folder.name}_{step}"
        number = 1
        while place.exists():
            number += 1
            place = place.with_name(f"{self.folder.name}_{step}_{number}")
        warnings.warn(
            f"checkpoint {self.folder / str(step)} is damaged ({reason}); it was moved to {place}, "
            "and the run resumes from the previous checkpoint",
            CheckpointWarning,
            stacklevel=3,
        )
        if this_host.is_first():
            place.parent.mkdir(exist_ok=True)
            (self.folder / str(step)).rename(place)
        exchange.wait_for_all()
        with only_the_error():
            self._manager.reload()

    def steps(self) -> list[int]:
        return sorted(self._manager.all_steps())

    def delete(self, step: int) -> None:
        with as_only_process():
            self._manager.delete(step)

    def close(self) -> None:
        with as_only_process():
            self._manager.close()

    def _restore(self, step: int, like: Tree) -> tuple[Tree, dict[str, Any]]:
        check_tree(self.folder / str(step) / "state")
        asked = jax.tree.map(_on_host if this_host.is_alone() else _abstract, like)
        restored = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(asked), record=ocp.args.JsonRestore()
            ),
        )
        state, record = restored.state, restored.record
        if not isinstance(record, dict) or not isinstance(record.get(_DIGESTS), dict):
            raise ValueError("its record is incomplete")
        if record.get(_STEP) != step:
            raise ValueError(f"it is a copy of step {record.get(_STEP)}")
        expected = record.pop(_DIGESTS)
        found = checksums(state)
        wrong = [name for name in found if found[name] != expected.get(name)]
        if wrong:
            raise ValueError(f"the checksum of {wrong[0]} is wrong")
        if this_host.is_alone():
            state = jax.tree.map(lambda x, y: jax.device_put(x, y.sharding), state, like)
        return state, record


def read_arrays(folder: Path, like: Tree, step: int | None = None) -> Tree:
    """Read the arrays that `like` names from one step of a run (default: the last).

    Nothing is written. A run may be writing to the folder at the same time: only complete steps are
    considered.
    """
    check_name(folder)
    place = _place(folder)
    steps = saved_steps(place)
    if not steps or (step is not None and step not in steps):
        asked = "" if step is None else f" {step}"
        found = ", ".join(map(str, steps)) or "none"
        raise InputError(f"{folder} has no checkpoint{asked}; available: {found}")
    item = place / str(steps[-1] if step is None else step) / "state"
    abstract = jax.tree.map(_abstract, like)
    try:
        with only_the_error(), ocp.PyTreeCheckpointer() as reader:
            check_tree(item)
            return reader.restore(
                item,
                args=ocp.args.PyTreeRestore(
                    item=abstract,
                    restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),
                    partial_restore=True,
                ),
            )
    except Exception as error:
        if _is_damage(error) or _chain_has(error, (OSError,)) or _names_no_damage(error):
            raise InputError(f"cannot read {item.parent}: {_first_line(error)}") from error
        raise


def _place(folder: Path) -> Any:
    """Where checkpoints are: here, or in the bucket that the folder is a copy of."""
    address = bucket_storage.stored_at(folder)
    return folder.absolute() if address is None else epath.Path(address)


def saved_steps(folder: Any) -> list[int]:
    """The complete steps in a checkpoint folder; unfinished ones have other names."""
    if not folder.is_dir():
        return []
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdecimal() and p.is_dir())


def _abstract(x: Any) -> jax.ShapeDtypeStruct:
    if isinstance(x, jax.ShapeDtypeStruct):
        return x
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None))


def _on_host(x: Any) -> np.ndarray:
    return np.empty(x.shape, x.dtype)


def checksums(state: Tree) -> dict[str, int]:
    """CRC-32 of every leaf that this process holds completely."""
    return {
        jax.tree_util.keystr(path): zlib.crc32(np.ascontiguousarray(leaf).tobytes())
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated
    }


def _is_damage(error: BaseException) -> bool:
    """Whether the files are broken; not that they may not be read, or that memory ran out."""
    return _chain_has(error, _DAMAGE) and not _names_no_damage(error)


def _names_no_damage(error: BaseException) -> bool:
    denied = _chain_has(error, (PermissionError, MemoryError))
    return denied or any(word in str(e) for e in _chain(error) for word in _NOT_DAMAGE)


def _chain_has(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    return any(isinstance(e, kinds) for e in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and the ones that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__


def _why_not_written(error: BaseException) -> str | None:
    """What the disk said, or None if the error is something else."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    # tensorstore's errors have no number, only a text that ends with the system's words
    words = (os.strerror(code) for code in _OF_THE_DISK)
    return next((word for word in words if word in str(error)), None)


def _first_line(error: BaseException) -> str:
    """The root of an error, in a few words."""
    *_, root = _chain(error)
    lines = str(root).strip().splitlines()
    return lines[0][:200] if lines else type(root).__name__
