"""The history of a run, in memory and in its folder; a run can be stopped anywhere and resumed.

This module records iterations and locates the state of a stopped run; the algorithm itself is in
`ttm.py`.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax.traverse_util import flatten_dict

from ttm_jax import bucket_storage
from ttm_jax.config import Matching, TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.collapse_alarm import worth_keeping
from ttm_jax.engine.global_scores import runner_ups
from ttm_jax.engine.pseudo_labels import Induced, PseudoLabels, choose, induce
from ttm_jax.fault_points import fault_point
from ttm_jax.hosts import exchange, this_host
from ttm_jax.hosts.shared_folder import check_shared, sync
from ttm_jax.runs.checkpoints import Checkpoints, CheckpointWarning
from ttm_jax.runs.folder import RunFolder
from ttm_jax.runs.identity import fingerprint, identity, plain, scores_checksum
from ttm_jax.runs.lock import FolderLock
from ttm_jax.training.sharding import to_host
from ttm_jax.training.task import Scores, Task
from ttm_jax.training.trainable import Flat, trained_leaves, variables
from ttm_jax.training.trainer import Interrupted, TrainState


@dataclass
class Position:
    """Progress of a run: the last finished iteration (-1: none) and the steps of the next one."""

    state: TrainState
    iteration: int = -1
    step: int = 0
    losses: np.ndarray | None = None


class Run:
    """The history of a run and, with a `path`, its folder and checkpoints."""

    def __init__(
        self,
        path: Path | None,
        dataset: GroupedDataset,
        config: TTMConfig,
        frozen: Flat,
    ) -> None:
        self.path, self.dataset, self.config, self.frozen = path, dataset, config, frozen
        self.rows: list[dict[str, Any]] = []
        self.scores: list[Scores] = []
        self._folder = None if path is None else RunFolder(path)
        self._writes = this_host.is_first()  # all hosts share the folder
        self._lock = None if path is None else FolderLock(path)
        self._checkpoints: Checkpoints | None = None
        self._partial: Checkpoints | None = None

    def open(
        self,
        start: TrainState,
        seed: int,
        source: str,
        task: Task,
        *,
        resume: bool,
    ) -> Position:
        """Create the folder, or find where the run in it stopped."""
        if self._folder is None:
            return Position(start)
        begin = flatten_dict(variables(start.trained, self.frozen), sep="/")
        inputs = map(to_host, jax.tree.leaves(task.inputs))
        same = identity(self.config, seed, self.dataset, source, begin, inputs, task.scoring)
        exchange.agree_on("settings, data or parameters", fingerprint(same))
        exchange.from_first(lambda: self._begin(same, resume=resume))
        check_shared(self._folder.path / "config.json")
        name = fingerprint(same)
        keep = self.config.keep_checkpoints
        self._checkpoints = Checkpoints(self._folder.checkpoints, keep, name)
        self._partial = Checkpoints(self._folder.path / "interrupted", 1, name)
        position = self._find(start)
        self.scores = [
            self._folder.load_scores(row["iteration"], self.dataset, row["scores"])
            for row in self.rows
        ]
        if self._writes and self._folder.rewind(self.rows, self._ledger()) and self.rows:
            warnings.warn(
                f"{self._folder.path}: lines of metrics.jsonl or ledger.jsonl were missing or "
                "changed; they were rebuilt from the checkpoint and the scores",
                CheckpointWarning,
                stacklevel=2,
            )
        exchange.wait_for_all()
        return position

    def _begin(self, same: dict[str, Any], *, resume: bool) -> None:
        """What only the host that writes does."""
        if self._writes:
            assert self._lock is not None
            assert self._folder is not None
            self._lock.acquire()
            self._folder.open(same, resume=resume)

    def _find(self, start: TrainState) -> Position:
        """The newest intact checkpoint, and the steps already done of an interrupted iteration."""
        assert self._checkpoints is not None
        assert self._partial is not None
        found = self._checkpoints.restore_latest(
            self._tree(start, with_optimizer=self.config.keep_opt_state)
        )
        if found is None:
            return Position(start)
        iteration, tree, record = found
        self.rows = record["rows"]
        position = Position(self._state(tree, start), iteration)
        if iteration + 1 in self._partial.steps():
            partial = self._partial.restore_latest(self._tree(start, with_optimizer=True))
            if partial is not None and partial[0] == iteration + 1:
                _, tree, record = partial
                position.state = self._state(tree, start)
                position.step = record["steps_done"]
                position.losses = np.asarray(record["losses"], np.float32)
        return position

    def _ledger(self) -> list[dict[str, Any]]:
        """The ledger of all iterations so far, from their scores and thresholds."""
        lines: list[dict[str, Any]] = []
        c = self.config
        for row, scores in zip(self.rows[1:], self.scores, strict=False):
            labels = choose(
                self.dataset.blocks,
                induce(scores, c.matching),
                row["tau"],
                kind=c.matching,
                unit=c.tau_unit,
                oracle=c.oracle,
            )
            lines += ledger_rows(row["iteration"], self.dataset, labels, c.matching)
        return plain(lines)

    @partial(jax.profiler.annotate_function, name="write")
    def log(
        self,
        iteration: int,
        scores: Scores,
        metrics: dict[str, Any],
        seconds: float,
        labels: PseudoLabels | None = None,
        losses: np.ndarray | None = None,
        lr: float | None = None,
        *,
        known: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Record an iteration (0: the initial model). Its checkpoint is saved afterwards.

        `known` is what else the row says.
        """
        row: dict[str, Any] = {
            "iteration": iteration,
            "metrics": metrics,
            "seconds": seconds,
            "scores": scores_checksum(*scores),
            **(known or {}),
        }
        if labels is not None:
            row |= {
                "tau": labels.tau,
                "units": sum(len(block) for block in labels.selected),
                "selected": len(labels.rows),
                "precision": labels.precision,
                "loss": None if losses is None or not len(losses) else float(losses[-1]),
                "losses": [] if losses is None else losses.tolist(),
                "lr": lr,
            }
        row = plain(row)  # the same values as after reading the file back
        self.rows.append(row)
        self.scores.append(scores)
        if self._folder is not None and self._writes:
            self._folder.save_scores(iteration, self.dataset, scores)
            self._folder.add_metrics(row)
            if labels is not None:
                rows = ledger_rows(iteration, self.dataset, labels, self.config.matching)
                self._folder.add_ledger(list(rows))
            bucket_storage.push()  # before the checkpoint that relies on it
        return row

    @partial(jax.profiler.annotate_function, name="save")
    def save(self, iteration: int, state: TrainState) -> None:
        if self._checkpoints is None or self._partial is None:
            return
        tree = self._tree(state, with_optimizer=self.config.keep_opt_state)
        last = {key: self.rows[-1].get(key) for key in ("iteration", "tau", "metrics")}
        record = {**last, "rows": self.rows}
        self._checkpoints.save(iteration, tree, record, worth_keeping(self.rows))
        for step in self._partial.steps():
            self._partial.delete(step)
        fault_point("partial checkpoint deleted")

    def save_partial(self, iteration: int, at: Interrupted) -> None:
        """Save the state in the middle of an iteration, including the optimizer state."""
        if self._partial is not None:
            record = {"steps_done": at.step, "losses": at.losses.tolist()}
            for step in self._partial.steps():
                self._partial.delete(step)
            fault_point("old partial checkpoint deleted")
            self._partial.save(iteration, self._tree(at.state, with_optimizer=True), record)

    def finish(self, summary: dict[str, Any]) -> None:
        if self._folder is not None and self._writes:
            kind = self.config.matching
            rows = matching_rows(self.dataset, self.scores[-1], kind)
            self._folder.finish(list(rows), summary)
        sync()  # others read it too
        self.close()

    def close(self) -> None:
        for checkpoints in (self._checkpoints, self._partial):
            if checkpoints is not None:
                checkpoints.close()
        if self._lock is not None:
            self._lock.release()

    def _tree(self, state: TrainState, *, with_optimizer: bool) -> dict[str, Any]:
        tree: dict[str, Any] = variables(state.trained, self.frozen)
        return {**tree, "optimizer": state.optimizer} if with_optimizer else tree

    def _state(self, tree: dict[str, Any], like: TrainState) -> TrainState:
        trained = trained_leaves(tree, like.trained)
        return TrainState(trained, tree.get("optimizer", like.optimizer))


def ledger_rows(
    iteration: int, dataset: GroupedDataset, labels: PseudoLabels, kind: Matching
) -> Iterator[dict[str, Any]]:
    """One line per unit: its matching, confidence, and whether it is selected and correct."""
    for index, (block, induced) in enumerate(zip(dataset.blocks, labels.induced, strict=True)):
        selected = labels.selected[index]
        right = None if labels.right is None else labels.right[index]
        for unit, row in enumerate(unit_rows(block.ids, induced, kind)):
            yield {
                "iteration": iteration,
                **row,
                "selected": bool(selected[unit]),
                "right": None if right is None else bool(right[unit]),
            }


def matching_rows(
    dataset: GroupedDataset, scores: Scores, kind: Matching
) -> Iterator[dict[str, Any]]:
    """The matchings of the final model, one line per unit; of a pair also the best other caption
    of the image (-1 if there is none)."""
    for block, values, found in zip(dataset.blocks, scores, induce(scores, kind), strict=True):
        others = runner_ups(values, found.matching)[0] if kind == "global" else None
        for unit, row in enumerate(unit_rows(block.ids, found, kind)):
            other = {} if others is None else {"runner_up": int(others[unit])}
            yield {**row, **other, "unique": bool(found.unique[unit])}


def unit_rows(ids: tuple[str, ...], induced: Induced, kind: Matching) -> Iterator[dict[str, Any]]:
    """{"group", "matching", "margin"} of groups, {"image", "caption", "similarity"} of pairs."""
    if kind == "global":
        for image, similarity in enumerate(induced.confidence):
            caption = int(induced.matching[0, image])
            yield {"image": image, "caption": caption, "similarity": float(similarity)}
        return
    for group, matched, margin in zip(ids, induced.matching, induced.confidence, strict=True):
        yield {"group": group, "matching": matched.tolist(), "margin": float(margin)}
