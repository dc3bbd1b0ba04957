"""One run, remembered: in memory always, on disk if there is a folder.

Knows how an iteration is written down and how a stopped run is found again; the algorithm itself
is in `ttm.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax.traverse_util import flatten_dict

from ttm_jax.checkpoint import Checkpoints
from ttm_jax.config import Matching, TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.pseudo_labels import Induced, PseudoLabels, induce
from ttm_jax.runlog import RunFolder, identity
from ttm_jax.sharding import wait_for_all
from ttm_jax.train import Interrupted, TrainState
from ttm_jax.trainable import Flat, state_leaves, variables

Scores = tuple[np.ndarray, ...]


@dataclass
class Position:
    """Where a run stands: the last finished iteration (-1: nothing yet) and steps of the next."""

    state: TrainState
    iteration: int = -1
    step: int = 0
    losses: np.ndarray | None = None


class Run:
    """History of a run and, with a `path`, its folder and checkpoints."""

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
        self._writes = jax.process_index() == 0  # hosts of a pod share the folder
        self._checkpoints: Checkpoints | None = None
        self._partial: Checkpoints | None = None

    def open(
        self, start: TrainState, seed: int, source: str, scoring: dict[str, Any], *, resume: bool
    ) -> Position:
        """Make the folder, or take up the run that is in it."""
        if self._folder is None:
            return Position(start)
        begin = flatten_dict(variables(start.trained, self.frozen), sep="/")
        if self._writes:
            same = identity(self.config, seed, self.dataset, source, begin, scoring)
            self._folder.open(same, resume=resume)
        wait_for_all("run folder is open")
        self._checkpoints = Checkpoints(self._folder.checkpoints, self.config.keep_checkpoints)
        self._partial = Checkpoints(self._folder.path / "interrupted", 1)
        position = self._find(start)
        if self._writes:
            self._folder.rewind(position.iteration)
        wait_for_all("run folder is ready")
        self.rows = self._folder.metrics()
        self.scores = [
            self._folder.load_scores(i, self.dataset) for i in range(position.iteration + 1)
        ]
        return position

    def _find(self, start: TrainState) -> Position:
        """The newest whole checkpoint, and the steps that an interrupted iteration had done."""
        assert self._checkpoints is not None
        assert self._partial is not None
        found = self._checkpoints.restore_latest(
            self._tree(start, with_optimizer=self.config.keep_opt_state)
        )
        if found is None:
            return Position(start)
        iteration, tree, _ = found
        position = Position(self._state(tree, start), iteration)
        if iteration + 1 in self._partial.steps():
            partial = self._partial.restore_latest(self._tree(start, with_optimizer=True))
            if partial is not None:
                _, tree, record = partial
                position.state = self._state(tree, start)
                position.step = record["step"]
                position.losses = np.asarray(record["losses"], np.float32)
        return position

    def log(
        self,
        iteration: int,
        scores: Scores,
        metrics: dict[str, Any],
        seconds: float,
        labels: PseudoLabels | None = None,
        losses: np.ndarray | None = None,
        lr: float | None = None,
    ) -> dict[str, Any]:
        """Write down an iteration (0: the model as it came). The checkpoint comes after this."""
        row: dict[str, Any] = {"iteration": iteration, "metrics": metrics, "seconds": seconds}
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
        self.rows.append(row)
        self.scores.append(scores)
        if self._folder is not None and self._writes:
            self._folder.save_scores(iteration, self.dataset, scores)
            self._folder.add_metrics(row)
            if labels is not None:
                rows = ledger_rows(iteration, self.dataset, labels, self.config.matching)
                self._folder.add_ledger(list(rows))
        return row

    def save(self, iteration: int, state: TrainState) -> None:
        if self._checkpoints is None or self._partial is None:
            return
        tree = self._tree(state, with_optimizer=self.config.keep_opt_state)
        record = {key: self.rows[-1].get(key) for key in ("iteration", "tau", "metrics")}
        self._checkpoints.save(iteration, tree, record)
        for step in self._partial.steps():
            self._partial.delete(step)

    def save_partial(self, iteration: int, at: Interrupted) -> None:
        """The state in the middle of an iteration, optimizer and all."""
        if self._partial is not None:
            record = {"step": at.step, "losses": at.losses.tolist()}
            for step in self._partial.steps():
                self._partial.delete(step)
            self._partial.save(iteration, self._tree(at.state, with_optimizer=True), record)

    def finish(self, summary: dict[str, Any]) -> None:
        if self._folder is not None and self._writes:
            kind = self.config.matching
            rows = matching_rows(self.dataset, induce(self.scores[-1], kind), kind)
            self._folder.finish(list(rows), summary)
        self.close()

    def close(self) -> None:
        for checkpoints in (self._checkpoints, self._partial):
            if checkpoints is not None:
                checkpoints.close()

    def _tree(self, state: TrainState, *, with_optimizer: bool) -> dict[str, Any]:
        tree: dict[str, Any] = variables(state.trained, self.frozen)
        return {**tree, "optimizer": state.optimizer} if with_optimizer else tree

    def _state(self, tree: dict[str, Any], like: TrainState) -> TrainState:
        leaves = state_leaves(tree)
        trained = {path: leaves[path] for path in like.trained}
        return TrainState(trained, tree.get("optimizer", like.optimizer))


def ledger_rows(
    iteration: int, dataset: GroupedDataset, labels: PseudoLabels, kind: Matching
) -> Iterator[dict[str, Any]]:
    """A line for every unit: what it was matched to, how sure, whether kept, whether right."""
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
    dataset: GroupedDataset, induced: tuple[Induced, ...], kind: Matching
) -> Iterator[dict[str, Any]]:
    """What the final model matches, a line a unit."""
    for block, found in zip(dataset.blocks, induced, strict=True):
        for unit, row in enumerate(unit_rows(block.ids, found, kind)):
            yield {**row, "unique": bool(found.unique[unit])}


def unit_rows(ids: tuple[str, ...], induced: Induced, kind: Matching) -> Iterator[dict[str, Any]]:
    """{"group", "matching", "margin"} of groups, {"image", "caption", "similarity"} of pairs."""
    if kind == "global":
        for image, similarity in enumerate(induced.confidence):
            caption = int(induced.matching[0, image])
            yield {"image": image, "caption": caption, "similarity": float(similarity)}
        return
    for group, matched, margin in zip(ids, induced.matching, induced.confidence, strict=True):
        yield {"group": group, "matching": matched.tolist(), "margin": float(margin)}
