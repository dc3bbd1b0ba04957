"""Test-Time Matching: score -> match -> select -> fit, T times (the paper's Algorithm 1).

    result = run_ttm(model, dataset, TTMConfig(lr=2e-5), run_dir="runs/mine", seed=0)

The loop itself (`Loop`) is a function of its inputs and the seed; `run_ttm` around it does files,
signals and printing. Random numbers depend on the seed and the iteration only, so a run that was
stopped anywhere goes on as if nothing had happened.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ttm_jax import run_pictures, schedules, sharding
from ttm_jax.config import TTMConfig
from ttm_jax.console import Console
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError, NonFinite
from ttm_jax.evaluation import evaluate
from ttm_jax.pseudo_labels import PseudoLabels, choose, first_threshold, induce
from ttm_jax.run import Position, Run
from ttm_jax.scorers.task import Task
from ttm_jax.signals import StopFlag
from ttm_jax.trackers import Tracker
from ttm_jax.train import AdamW, Interrupted, NonFiniteLoss, Trainer, TrainState, plan_batches

Scores = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Record:
    """One iteration. `scores`, and all that follows from them, are of the model it started from.

    Arrays are [group, image, text], [group, image] and [group]; of a global matching [image, text],
    [image]; of a dataset with mixed shapes, tuples of such arrays, one a shape.
    """

    iteration: int
    tau: float
    scores: Any = field(repr=False)
    matching: Any = field(repr=False)
    margins: Any = field(repr=False)
    selected: Any = field(repr=False)
    precision: float | None
    loss: float | None


@dataclass(frozen=True, eq=False)
class TTMResult:
    """What came out: `scores`, `matchings` and `metrics` are of the adapted `model`."""

    history: tuple[Record, ...] = field(repr=False)
    scores: Any = field(repr=False)
    matchings: Any = field(repr=False)
    model: Any = field(repr=False)
    metrics: dict[str, Any]
    raw_metrics: dict[str, Any]
    seed: int
    run_dir: Path | None


class Loop:
    """The algorithm on a task: what to select, and a model fitted to it."""

    def __init__(self, task: Task, dataset: GroupedDataset, config: TTMConfig, seed: int) -> None:
        self.task, self.dataset, self.config, self.seed = task, dataset, config, seed
        adam = AdamW(config.beta1, config.beta2, config.eps, config.weight_decay)
        self.trainer = Trainer(task, adam, config.placement)
        self.units = (
            dataset.blocks[0].image_index.size if config.matching == "global" else len(dataset)
        )
        self.batch = config.batch_units(self.units)

    def score(self, state: TrainState, iteration: int) -> Scores:
        scores = self.task.score(state.trained)
        bad = sum(int(np.sum(~np.isfinite(block))) for block in scores)
        if bad:
            raise NonFinite(f"{bad} scores of the model after iteration {iteration} are not finite")
        return scores

    def thresholds(self, raw: Scores) -> np.ndarray:
        """tau of every iteration; tau_1 from the coverage of the first scores if not given."""
        c = self.config
        tau_1 = c.tau_1
        if tau_1 is None:
            tau_1 = first_threshold(induce(raw, c.matching), c.tau_unit, c.first_coverage)
        return schedules.tau_schedule(c.schedule, tau_1, c.tau_T, c.iterations)

    def select(self, scores: Scores, tau: float) -> PseudoLabels:
        c = self.config
        induced = induce(scores, c.matching)
        return choose(
            self.dataset.blocks,
            induced,
            tau,
            kind=c.matching,
            unit=c.tau_unit,
            oracle=c.oracle,
        )

    def fit(
        self,
        state: TrainState,
        labels: PseudoLabels,
        iteration: int,
        *,
        first_step: int = 0,
        losses: np.ndarray | None = None,
        on_steps: Callable[[int, int], None] = lambda done, total: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[TrainState, np.ndarray]:
        """Train on the selected units; with none selected the model stays as it is."""
        c = self.config
        rng = np.random.default_rng([self.seed, iteration]) if c.shuffle else None
        plan = plan_batches(
            labels.rows,
            self.batch,
            c.epochs,
            lambda steps: schedules.learning_rates(
                c.lr, iteration - 1, steps, c.lr_decay, c.min_lr_factor
            ),
            max_units=self.units,
            rng=rng,
        )
        if not c.keep_opt_state and not first_step:
            state = self.trainer.reset(state)
        try:
            return self.trainer.fit(
                state,
                self.task.examples(labels.matchings),
                plan,
                jax.random.fold_in(jax.random.key(self.seed), iteration),
                first_step=first_step,
                losses=losses,
                on_steps=lambda done, _: on_steps(done, plan.steps),
                should_stop=should_stop,
            )
        except NonFiniteLoss as error:
            raise NonFinite(
                f"the loss is {error.loss} at step {error.step + 1} of {plan.steps} of iteration "
                f"{iteration}; the last good checkpoint is kept. Try a smaller lr (now {c.lr})"
            ) from error


def run_ttm(
    model: Any,
    dataset: GroupedDataset,
    config: TTMConfig | None = None,
    run_dir: str | Path | None = None,
    seed: int = 0,
    *,
    resume: bool = True,
    console: Console | None = None,
    trackers: Sequence[Tracker] = (),
    devices: list | None = None,
) -> TTMResult:
    """Adapt `model` to `dataset` without labels; see `TTMConfig` for every setting.

    With a `run_dir` everything is written there, and a run that was stopped is taken up again when
    model, data, config and seed are the same. `trackers` are told the metrics of every iteration
    (`ttm_jax.trackers`: TensorBoard, Weights & Biases). Labels, where the dataset has them, are
    reported and never used (but by `config.oracle`).
    """
    config = config or TTMConfig()
    if config.oracle and not dataset.has_truth:
        raise InputError("the oracle needs the truth of every group, and this data has none")
    console = console or Console("quiet")
    grouped = dataset
    dataset = dataset.ungrouped() if config.matching == "global" else dataset
    task = model.bind(dataset, config, sharding.make_mesh(devices), seed)
    loop = Loop(task, dataset, config, seed)
    run = Run(None if run_dir is None else Path(run_dir), dataset, config, task.initial.frozen)
    start = loop.trainer.start(task.initial.trained)
    try:
        with StopFlag() as stop:
            position = run.open(start, seed, model.source, task.scoring, resume=resume)
            if run.path is not None and jax.process_index() == 0:
                run_pictures.save(run.path, grouped)
            state = _drive(loop, run, position, grouped, console, trackers, stop)
            run.finish(_summary(run, seed))
    finally:
        run.close()
    return _result(loop, run, state)


def _drive(
    loop: Loop,
    run: Run,
    position: Position,
    grouped: GroupedDataset,
    console: Console,
    trackers: Sequence[Tracker],
    stop: StopFlag,
) -> TrainState:
    """Iterations from wherever the run stands to the end."""
    config, state = loop.config, position.state
    if position.iteration < 0:
        began = time.perf_counter()
        scores = loop.score(state, 0)
        metrics = evaluate(scores, grouped, config.matching)
        run.log(0, scores, metrics, time.perf_counter() - began)
        run.save(0, state)
    taus = loop.thresholds(run.scores[0])
    console.header()
    for row in run.rows:
        console.iteration(row)
    for iteration in range(len(run.rows), config.iterations + 1):
        began = time.perf_counter()
        labels = loop.select(run.scores[-1], float(taus[iteration - 1]))
        console.begin(f"seed {loop.seed}  iteration {iteration}/{config.iterations}")
        try:
            state, losses = loop.fit(
                state,
                labels,
                iteration,
                first_step=position.step,
                losses=position.losses,
                on_steps=console.progress,
                should_stop=stop.is_set,
            )
        except Interrupted as interrupted:
            run.save_partial(iteration, interrupted)
            raise stop.error(run.path) from interrupted
        position = Position(state, iteration)
        scores = loop.score(state, iteration)
        metrics = evaluate(scores, grouped, config.matching)
        seconds, lr = time.perf_counter() - began, config.lr * config.lr_decay ** (iteration - 1)
        console.end()
        row = run.log(iteration, scores, metrics, seconds, labels, losses, lr)
        console.iteration(row)
        for tracker in trackers:
            tracker.log(row)
        run.save(iteration, state)
        if iteration < config.iterations and sharding.agree(stop.is_set()):
            raise stop.error(run.path)
    return state


def _summary(run: Run, seed: int) -> dict[str, Any]:
    """The result is the final iteration's; the best one would be chosen with labels."""
    return {
        "seed": seed,
        "iterations": run.config.iterations,
        "raw": run.rows[0]["metrics"],
        "final": run.rows[-1]["metrics"],
        "seconds": sum(row["seconds"] for row in run.rows),
    }


def _result(loop: Loop, run: Run, state: TrainState) -> TTMResult:
    kind = loop.config.matching
    history = []
    for row, scores in zip(run.rows[1:], run.scores, strict=False):
        labels = loop.select(scores, row["tau"])  # cheap, and the same after a resume
        history.append(
            Record(
                iteration=row["iteration"],
                tau=row["tau"],
                scores=_simplest(scores, kind == "global"),
                matching=_simplest(labels.matchings, kind == "global"),
                margins=_simplest(tuple(block.confidence for block in labels.induced)),
                selected=_simplest(labels.selected),
                precision=row["precision"],
                loss=row["loss"],
            )
        )
    final = run.scores[-1]
    matchings = tuple(block.matching for block in induce(final, kind))
    return TTMResult(
        history=tuple(history),
        scores=_simplest(final, kind == "global"),
        matchings=_simplest(matchings, kind == "global"),
        model=loop.task.adapted(state.trained),
        metrics=run.rows[-1]["metrics"],
        raw_metrics=run.rows[0]["metrics"],
        seed=loop.seed,
        run_dir=run.path,
    )


def _simplest(blocks: tuple[np.ndarray, ...], one_group: bool = False) -> Any:
    """The array itself where there is one shape only, without the axis of a single big group."""
    if len(blocks) > 1:
        return blocks
    return blocks[0][0] if one_group else blocks[0]
