"""Test-Time Matching: score -> match -> select -> fit, T times (the paper's Algorithm 1).

    result = run_ttm(model, dataset, TTMConfig(lr=2e-5), run_dir="runs/mine", seed=0)

The loop itself (`Loop`) is a function of its inputs and the seed; `run_ttm` around it handles
files, signals and printing. Random numbers depend only on the seed and the iteration, so a resumed
run gives the same result as one that was never interrupted.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ttm_jax.config import TTMConfig, check_seeds
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.collapse_alarm import advice, alarm, caption_variety
from ttm_jax.engine.diagnosis import blind_accuracy, estimates, first_tau
from ttm_jax.engine.evaluation import evaluate
from ttm_jax.engine.global_scores import assignment_of, count_not_finite, matched, round_text
from ttm_jax.engine.model import Model
from ttm_jax.engine.pseudo_labels import PseudoLabels, choose, induce, right_units
from ttm_jax.engine.result import Record, TTMResult
from ttm_jax.engine.resumable_run import Position, Run
from ttm_jax.engine.scores_and_decoys import Look, Looker, usual_decoys
from ttm_jax.errors import InputError, NonFinite
from ttm_jax.hosts import this_host
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.large.pair_scores import PairScores
from ttm_jax.matching.large.result import Round
from ttm_jax.runs.console import Console, default_console
from ttm_jax.runs.pictures import save_pictures
from ttm_jax.runs.profile import Profile
from ttm_jax.runs.signals import StopFlag
from ttm_jax.runs.trackers import Tracker
from ttm_jax.training import schedules, sharding
from ttm_jax.training.batches import batch_widths, plan_batches
from ttm_jax.training.optimizer import AdamW
from ttm_jax.training.task import Scores, Task
from ttm_jax.training.trainer import Interrupted, NonFiniteLoss, Trainer, TrainState


class Loop:
    """The algorithm on a task: what to select, and a model fitted to it."""

    def __init__(self, task: Task, dataset: GroupedDataset, config: TTMConfig, seed: int) -> None:
        self.task, self.dataset, self.config, self.seed = task, dataset, config, seed
        adam = AdamW(config.beta1, config.beta2, config.eps, config.weight_decay)
        self.units = dataset.units(config.matching)
        self.batch = config.batch_units(self.units)
        epochs, device = config.epochs * config.iterations, task.mesh.devices.flat[0]
        widths = batch_widths(self.batch, epochs, task.step_flops, device.platform)
        self.trainer = Trainer(task, adam, config.placement, widths)
        self.looker = Looker(task, dataset, config, usual_decoys(task, dataset, config))

    @partial(jax.profiler.annotate_function, name="score")
    def look(
        self,
        state: TrainState,
        iteration: int,
        previous: Scores | None = None,
        on_round: Callable[[Round], None] = lambda found: None,
    ) -> Look:
        """The scores of all groups and, where there are any, of their decoys.

        `previous` are the scores of the iteration before, where a large matching begins.
        """
        found = self.looker.look(state.trained)
        bad = count_not_finite(found.scores)
        if bad:
            raise NonFinite(f"{bad} scores of the model after iteration {iteration} are not finite")
        if not isinstance(found.scores[0], Embeddings):
            return found
        scores = matched(found.scores, self.config, previous, on_round)
        return Look(scores, scores, None, found.scores[0])

    def thresholds(self, tau_1: float) -> np.ndarray:
        """tau of every iteration."""
        c = self.config
        return schedules.tau_schedule(c.schedule, tau_1, c.tau_T, c.iterations)

    @partial(jax.profiler.annotate_function, name="match")
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

    @partial(jax.profiler.annotate_function, name="train")
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
        """Train on the selected units; if none is selected, the model stays unchanged."""
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
    model: Model,
    dataset: GroupedDataset,
    config: TTMConfig | None = None,
    run_dir: str | Path | None = None,
    seed: int = 0,
    *,
    resume: bool = True,
    console: Console | None = None,
    trackers: Sequence[Tracker] = (),
    devices: list | None = None,
    donate: bool = False,
    profile: int = 0,
) -> TTMResult:
    """Adapt a model to a dataset without labels: the paper's Algorithm 1.

    If the dataset has labels, they are used for the reported metrics and nothing else (except with
    `config.oracle`). The given model is not changed unless `donate` says so.

    Args:
        model: The model to adapt, from `load_model`.
        dataset: The groups to adapt it to, from `read_folder`, `load_benchmark` or
            `ttm_jax.data.world.make`.
        config: All settings; the defaults of `TTMConfig` if None.
        run_dir: Folder for metrics, scores, checkpoints and matchings. None writes nothing.
        seed: Determines the order of the batches and the random crops.
        resume: Resume the run in `run_dir` if it was interrupted and model, data, config and seed
            are the same. False rejects a folder that contains a run.
        console: Where progress is shown. None shows it on a terminal and in a notebook, and nothing
            elsewhere; `Console("quiet")` shows nothing anywhere.
        trackers: Receive the metrics of every iteration; see `ttm_jax.runs.trackers`.
        devices: JAX devices to use; all of them if None.
        donate: Take the memory of `model` for the model that is trained, instead of keeping both.
            `model` has no parameters afterwards.
        profile: Write a trace of about this many training steps to `run_dir/profile`, which
            TensorBoard and Perfetto open.

    Returns:
        The adapted model, its scores and matchings, and the metrics before and after.

    Raises:
        InputError: The run folder belongs to a different run, the data does not fit the model or
            the memory, or the oracle is requested without labels.
        NonFinite: A score or the loss is not finite.
        RunInterrupted: Ctrl-C or SIGTERM arrived. The run was saved and can be resumed.

    Examples:
        >>> import ttm_jax
        >>> from ttm_jax.data import world
        >>> model = ttm_jax.load_model("small-siglip")
        >>> dataset = world.make("color_swap", groups=6)
        >>> config = ttm_jax.TTMConfig(lr=2e-4, iterations=2, epochs=1)
        >>> result = ttm_jax.run_ttm(model, dataset, config, run_dir="runs/mine")
        >>> result.matchings.shape  # the caption of each image of each group
        (6, 2)
        >>> sorted(result.metrics["group_match"])
        ['chance', 'count', 'of', 'percent']
        >>> result.model.save("adapted")  # a Hugging Face folder
    """
    config = config or TTMConfig()
    check_seeds(seed)
    if config.oracle and not dataset.has_truth:
        raise InputError("the oracle needs the truth of every group, but this data has none")
    if console is None:
        with default_console() as own:
            return run_ttm(
                model, dataset, config, run_dir, seed,
                resume=resume, console=own, trackers=trackers, devices=devices,
                donate=donate,
                profile=profile,
            )  # fmt: skip
    grouped = dataset
    dataset = dataset.ungrouped() if config.matching == "global" else dataset
    console.begin(f"seed {seed}, reading and scoring {grouped.name}")
    task = model.bind(dataset, config, sharding.make_mesh(devices), seed)
    loop = Loop(task, dataset, config, seed)
    run = Run(None if run_dir is None else Path(run_dir), dataset, config, task.initial.frozen)
    if donate:
        model.release()
    start = loop.trainer.start(task.initial.trained, consume=donate)
    try:
        with StopFlag() as stop:
            position = run.open(start, seed, model.source, task, resume=resume)
            if run.path is not None and this_host.is_first():
                save_pictures(run.path, grouped)
            tracer = Profile(run.path, profile)
            state = _drive(loop, run, position, grouped, console, trackers, stop, tracer)
            tracer.end()
            run.finish(_summary(run, seed))
    finally:
        run.close()
        console.end()
    return _result(loop, run, state, grouped)


def _drive(
    loop: Loop,
    run: Run,
    position: Position,
    grouped: GroupedDataset,
    console: Console,
    trackers: Sequence[Tracker],
    stop: StopFlag,
    tracer: Profile,
) -> TrainState:
    """The remaining iterations."""
    config, state = loop.config, position.state

    def on_round(found: Round) -> None:
        console.status(round_text(found))

    if position.iteration < 0:
        began = time.perf_counter()
        look = loop.look(state, 0, on_round=on_round)
        tau_1 = first_tau(loop.dataset, look, config)
        metrics = evaluate(look.scores, grouped, config.matching, look.embeddings)
        known = {"tau_1": tau_1, **known_without_labels(loop, look, tau_1)}
        run.log(0, look.scores, metrics, time.perf_counter() - began, known=known)
        run.save(0, state)

    def on_steps(done: int, total: int) -> None:
        stop.steps_taken = True
        console.progress(done, total)
        tracer.steps(done)

    taus = loop.thresholds(run.rows[0]["tau_1"])
    console.end()
    console.header(loop.seed)
    for row in run.rows:
        console.iteration(row)
    if position.iteration == config.iterations:
        console.say("this run is finished already; nothing is computed again")
    for iteration in range(len(run.rows), config.iterations + 1):
        began = time.perf_counter()
        tracer.begin(iteration, config.iterations)
        labels = loop.select(run.scores[-1], float(taus[iteration - 1]))
        console.begin(f"seed {loop.seed}  iteration {iteration}/{config.iterations}")
        try:
            state, losses = loop.fit(
                state,
                labels,
                iteration,
                first_step=position.step,
                losses=position.losses,
                on_steps=on_steps,
                should_stop=stop.is_set,
            )
        except Interrupted as interrupted:
            run.save_partial(iteration, interrupted)
            raise stop.error(run.path) from interrupted
        position = Position(state, iteration)
        look = loop.look(state, iteration, run.scores[-1], on_round)
        metrics = evaluate(look.scores, grouped, config.matching, look.embeddings)
        next_tau = float(taus[min(iteration, config.iterations - 1)])
        known = known_without_labels(loop, look, next_tau)
        known["alarm"] = alarm([*run.rows, {"iteration": iteration, **known}])
        seconds, lr = time.perf_counter() - began, config.lr * config.lr_decay ** (iteration - 1)
        console.end()
        row = run.log(iteration, look.scores, metrics, seconds, labels, losses, lr, known=known)
        console.iteration(row)
        if row["alarm"] and not any(earlier.get("alarm") for earlier in run.rows[:-1]):
            console.say(advice(row, run.path))
        for tracker in trackers:
            tracker.log(row)
        run.save(iteration, state)
        if iteration < config.iterations and sharding.agree(stop.is_set()):
            raise stop.error(run.path)
    return state


def known_without_labels(loop: Loop, look: Look, tau: float) -> dict[str, Any]:
    """What a row of the log says besides the metrics; `tau` is what would select next.

    `grounded` is the exception: it is about labels, and there only if they are known.
    """
    dataset, kind = loop.dataset, loop.config.matching
    known: dict[str, Any] = {"estimate": estimates(dataset, look, tau, loop.config)}
    known |= assignment_of(look.scores)
    if kind == "global" or any(b.shape[0] < b.shape[1] for b in dataset.blocks):
        known["captions"] = caption_variety(
            look.scores, [block.text_index for block in dataset.blocks]
        )
    blind = blind_accuracy(dataset, look)
    if blind is not None:
        right = right_units(dataset.blocks, induce(look.scores, kind), kind)
        assert right is not None  # or there would be no blind accuracy
        share = float(np.concatenate(right).mean())
        known["grounded"] = {"blind": blind, "gain": share - blind}
    return known


def _summary(run: Run, seed: int) -> dict[str, Any]:
    """The result is that of the last iteration; choosing the best one would require labels."""
    return {
        "seed": seed,
        "iterations": run.config.iterations,
        "raw": run.rows[0]["metrics"],
        "final": run.rows[-1]["metrics"],
        "seconds": sum(row["seconds"] for row in run.rows),
    }


def _result(loop: Loop, run: Run, state: TrainState, grouped: GroupedDataset) -> TTMResult:
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
        dataset=grouped,
        config=loop.config,
    )


def _simplest(blocks: tuple[Any, ...], one_group: bool = False) -> Any:
    """The array itself if there is only one shape, without the axis of a single big group."""
    if len(blocks) > 1:
        return blocks
    if isinstance(blocks[0], PairScores):
        return blocks[0]
    return blocks[0][0] if one_group else blocks[0]
