"""Checkpoints of runs. Only this file and checkpoint_reader.py import orbax.

One step an iteration. Each holds a tree of arrays and a JSON record; the record carries a checksum
of every array, so that a damaged checkpoint is noticed and the one before it is used.
"""

import warnings
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from ttm_jax.errors import InputError

Tree = Any
_DIGESTS = "checksums"


class CheckpointWarning(UserWarning):
    """A checkpoint could not be used and an older one was."""


class Checkpoints:
    """The checkpoints of one run, newest `keep` of them (0: all)."""

    def __init__(self, folder: Path, keep: int = 0) -> None:
        self.folder = folder.absolute()
        self._manager = ocp.CheckpointManager(
            self.folder,
            item_names=("state", "record"),
            options=ocp.CheckpointManagerOptions(
                max_to_keep=keep or None,
                create=True,
                cleanup_tmp_directories=True,
                enable_async_checkpointing=False,
            ),
        )

    def save(self, step: int, state: Tree, record: dict[str, Any]) -> None:
        """Write a checkpoint; it appears under its name only when it is complete."""
        record = {**record, _DIGESTS: checksums(state)}
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), record=ocp.args.JsonSave(record)
            ),
            force=True,
        )
        self._manager.wait_until_finished()

    def restore_latest(self, like: Tree) -> tuple[int, Tree, dict[str, Any]] | None:
        """The newest checkpoint that is whole: its step, its state shaped and placed as `like`.

        Anything newer that is damaged is removed with a warning, because its step will be saved
        again. `like` is a tree of arrays or of ShapeDtypeStruct with shardings.
        """
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                state, record = self._restore(step, like)
            except Exception as error:  # orbax, tensorstore and json raise many kinds
                reason = str(error).strip().splitlines()[0][:200]
                warnings.warn(
                    f"checkpoint {self.folder / str(step)} is damaged ({reason}); "
                    "going back to the one before it",
                    CheckpointWarning,
                    stacklevel=2,
                )
                self._manager.delete(step)
            else:
                return step, state, record
        return None

    def restore(self, like: Tree, step: int | None = None) -> Tree:
        """The arrays that `like` names, of one step (default: the last); others stay on disk."""
        steps = self.steps()
        if not steps or (step is not None and step not in steps):
            raise InputError(
                f"{self.folder} has no checkpoint {'' if step is None else step}; there are "
                f"{', '.join(map(str, steps)) or 'none'}"
            )
        item = self.folder / str(steps[-1] if step is None else step) / "state"
        with ocp.PyTreeCheckpointer() as reader:
            return reader.restore(
                item,
                args=ocp.args.PyTreeRestore(
                    item=jax.tree.map(_abstract, like),
                    restore_args=ocp.checkpoint_utils.construct_restore_args(
                        jax.tree.map(_abstract, like)
                    ),
                    partial_restore=True,
                ),
            )

    def steps(self) -> list[int]:
        return sorted(self._manager.all_steps())

    def delete(self, step: int) -> None:
        self._manager.delete(step)

    def close(self) -> None:
        self._manager.close()

    def _restore(self, step: int, like: Tree) -> tuple[Tree, dict[str, Any]]:
        abstract = jax.tree.map(_abstract, like)
        restored = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(abstract), record=ocp.args.JsonRestore()
            ),
        )
        expected = restored.record.pop(_DIGESTS, {})
        found = checksums(restored.state)
        wrong = [name for name in expected if found.get(name, expected[name]) != expected[name]]
        if wrong:
            raise ValueError(f"checksum of {wrong[0]} does not fit")
        return restored.state, restored.record


def _abstract(x: Any) -> jax.ShapeDtypeStruct:
    if isinstance(x, jax.ShapeDtypeStruct):
        return x
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None))


def checksums(state: Tree) -> dict[str, int]:
    """CRC-32 of every leaf that this process holds whole."""
    return {
        jax.tree_util.keystr(path): zlib.crc32(np.ascontiguousarray(leaf).tobytes())
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated
    }
