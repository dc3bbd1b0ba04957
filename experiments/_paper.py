"""How an experiment of the paper runs: data, model, one run per seed, the row beside the paper's.

    <run dir>/experiment.json     what is run
    <run dir>/summary.json        the numbers of all seeds, the paper's, and the verdicts
    <run dir>/seed_0/ ...         the run folders (docs/ttm.md)

An experiment with several arms has such a folder for each, named by its label, and `results.md` and
`results.csv` over all of them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.experiments import EXPERIMENTS, Arm, Experiment
from experiments._flags import Flags, check, root_of, start
from experiments._load import Data, load_data, load_model, model_source
from experiments._settings import (
    apply_flags,
    change_scores,
    describe,
    differences,
    ignore_computation,
)
from ttm_jax.bucket_storage import shown
from ttm_jax.cli.options import Switch, parse
from ttm_jax.config import TTMConfig
from ttm_jax.data.paper import find_result
from ttm_jax.errors import InputError
from ttm_jax.files import read_json, write_json, write_text

if TYPE_CHECKING:
    from ttm_jax.engine.model import Model
    from ttm_jax.report.tables.verdict import Comparison


@dataclass(frozen=True)
class Plan:
    """Everything that decides a run, before anything heavy is loaded."""

    experiment: Experiment
    arm: Arm
    flags: Flags
    folder: Path
    correction: Switch = True
    """Of the two images that WhatsUp A mislabels."""

    @property
    def config(self) -> TTMConfig:
        return apply_flags(self.arm.config(self.flags.small), self.flags)

    @property
    def source(self) -> str:
        return model_source(self.arm, self.flags)

    @property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Settings that flags have changed: name -> (now, usual)."""
        found = differences(self.arm.config(self.flags.small), self.config, self.flags)
        return {} if set(found) == {"iterations"} and self._has_row else found

    @property
    def _has_row(self) -> bool:
        """Whether the paper has a row for this number of iterations: Table 11 has T = 3 and 5."""
        preset, config = self.arm.preset, self.config
        same = find_result(preset.dataset, preset.model, config.matching, config.iterations)
        return self.arm.config() == preset.ttm and same is not None

    def is_comparable(self, data: Data) -> bool:
        """Whether the raw numbers should be the paper's."""
        own = self.flags.small or self.flags.model is not None
        return not own and data.comparable and not change_scores(self.changes)

    def note(self, data: Data) -> str:
        """Why numbers cannot be compared with the paper's; empty if they can."""
        if self.flags.small:
            return "a small model on the procedural world"
        if self.flags.model is not None:
            return "not the paper's model"
        if not data.comparable:
            few = f", only the first {len(data.dataset)} groups" if self.flags.limit else ""
            return f"not the paper's data{few}"
        return f"not the paper's settings: {describe(self.changes)}" if self.changes else ""


def main(experiment: Experiment, about: str | None) -> None:
    """The whole command of an experiment without flags of its own."""
    run_experiment(
        experiment, parse(Flags, sys.argv[1:], f"python -m experiments.{experiment.name}", about)
    )


def run_experiment(experiment: Experiment, flags: Flags, correction: bool = True) -> None:
    """Run or resume every arm, then show all rows together."""
    check(flags)
    flags = start(flags)
    plans = make_plans(experiment, flags, correction)
    if flags.dry_run:
        show_outlooks(plans)
        return
    rows = run_plans(plans)
    finish(rows, root_of(flags, experiment.name), experiment, len(plans) > 1)


def make_plans(experiment: Experiment, flags: Flags, correction: bool = True) -> list[Plan]:
    """One plan per arm; refuses flags that do not fit the experiment."""
    if flags.config is not None and len(experiment.arms) > 1:
        labels = ", ".join(arm.label for arm in experiment.arms)
        raise InputError(f"--config is for one run, and {experiment.name} has {labels}; choose one")
    for arm in experiment.arms:
        for name in arm.changes:
            if getattr(flags, name, None) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"{flag}: {experiment.name} varies it; leave the flag out")
    (whole,) = (e for e in EXPERIMENTS if e.name == experiment.name)
    root, single = root_of(flags, experiment.name), len(whole.arms) == 1
    suffix = "" if correction else "_as_released"
    return [
        Plan(experiment, arm, flags, root if single else root / (arm.label + suffix), correction)
        for arm in experiment.arms
    ]


def run_plans(plans: Sequence[Plan]) -> "list[Comparison]":
    """The rows; a model is loaded once where several arms share it."""
    rows: list[Comparison] = []
    models: dict[str, Any] = {}
    for index, plan in enumerate(plans):
        if not plan.flags.quiet:  # before the first import that takes seconds
            title = f"{plan.experiment.name} {plan.arm.label}"
            print(f"{title}: loading data and model", file=sys.stderr, flush=True)
        data = load_data(plan.arm, plan.flags, plan.correction)
        open_folder(plan, data)
        if plan.source not in models:
            models = {plan.source: load_model(plan.source)}  # one at a time
        last = plan.source not in [later.source for later in plans[index + 1 : index + 2]]
        model = models.pop(plan.source) if last else models[plan.source]
        rows.append(run_plan(plan, data, model, donate=last))
    return rows


def show_outlooks(plans: Sequence[Plan]) -> None:
    """What `--dry-run` prints: the estimated cost of every run, and nothing is written."""
    from ttm_jax.engine.cost_estimate import estimate
    from ttm_jax.report.adaptation import elsewhere, outlook_text

    models: dict[str, Any] = {}
    for plan in plans:
        data = load_data(plan.arm, plan.flags, plan.correction)
        if plan.source not in models:
            models = {plan.source: load_model(plan.source)}
        config, model = plan.config, models[plan.source]
        seeds = len(plan.flags.seeds)
        count = "1 seed" if seeds == 1 else f"{seeds} seeds"
        print(f"{plan.experiment.name} {plan.arm.label}: {count}, in {plan.folder}")
        found = estimate(model, data.dataset, config)
        there = elsewhere(plan.flags.device, model, data.dataset, config, found, seeds)
        text = outlook_text(data.dataset, plan.source, config, found, seeds, elsewhere=there)
        print(text, flush=True)
        note = plan.note(data)
        print(f"not compared with the paper: {note}\n" if note else "")


def open_folder(plan: Plan, data: Data) -> None:
    """Say in the folder what is run there, or make sure that it is the same."""
    from ttm_jax.hosts.exchange import from_first

    from_first(lambda: write_record(plan, data))


def write_record(plan: Plan, data: Data) -> None:
    """What the first host does of `open_folder`."""
    arm, flags = plan.arm, plan.flags
    record = {
        "experiment": plan.experiment.name,
        "arm": arm.label,
        "where": plan.experiment.where,
        "table": arm.table,
        "dataset": arm.preset.dataset,
        "model": arm.preset.model,
        "source": plan.source,
        "matching": arm.preset.ttm.matching,
        "small": flags.small,
        "iterations": plan.config.iterations,
        "data": data.facts,
    }
    if plan.changes:
        record["settings"] = {name: now for name, (now, _) in plan.changes.items()}
    path = plan.folder / "experiment.json"
    if path.exists():
        old = read_json(path)
        different = [name for name in {**record, **old} if old.get(name) != record.get(name)]
        if different:
            said = "; ".join(f"{name}: {old.get(name)} -> {record.get(name)}" for name in different)
            raise InputError(f"{plan.folder} holds another experiment: {said}. Give another folder")
    write_json(path, record)


def run_plan(plan: Plan, data: Data, model: "Model", *, donate: bool) -> "Comparison":
    """Run or resume the seeds of an arm; its row, which is also in its summary.json.

    With `donate`, nobody needs the model afterwards.
    """
    from ttm_jax.engine.seeds import run_seeds, summarise
    from ttm_jax.hosts.this_host import is_first
    from ttm_jax.report.tables.verdict import Comparison, compare, paper_row
    from ttm_jax.runs.console import Console
    from ttm_jax.runs.trackers import open_trackers

    flags, preset, config = plan.flags, plan.arm.preset, plan.config
    title = f"{plan.experiment.name} {plan.arm.label}"
    with Console("quiet" if flags.quiet else "auto") as console:
        console.say(f"{title}: {len(data.dataset)} groups, {plan.source}, in {shown(plan.folder)}")
        results = run_seeds(
            model,
            data.dataset,
            config,
            flags.seeds,
            plan.folder,
            resume=flags.resume,
            console=console,
            one_per_device=flags.one_per_device,
            donate=donate,
            keep_models="none",
            one_per_host=flags.one_per_host,
            profile=flags.profile,
            track=lambda folder, seed: open_trackers(
                folder, f"{title} {seed}", tensorboard=flags.tensorboard, wandb=flags.wandb
            ),
        )
    paper = None
    if plan.is_comparable(data):
        settings = ignore_computation(config, preset.ttm)
        paper = paper_row(preset.dataset, preset.model, preset.ttm, settings)
    row = Comparison(
        data.dataset.name if flags.small else preset.dataset,
        plan.source if flags.small or flags.model else preset.model,
        plan.arm.title,
        flags.seeds,
        compare(results, paper),
        plan.note(data),
    )
    if is_first():
        summary = {**summarise(results), "data": data.facts, "comparison": row.as_json()}
        write_json(plan.folder / "summary.json", summary)
    return row


def finish(rows: "Sequence[Comparison]", root: Path, experiment: Experiment, several: bool) -> None:
    """The table on the screen and, for several arms, in files."""
    from ttm_jax.hosts.this_host import is_first
    from ttm_jax.report.tables.beside_paper import csv_text, markdown, print_comparison

    if not is_first():
        return
    if several:
        write_text(root / "results.md", markdown(rows))
        write_text(root / "results.csv", csv_text(rows))
    print_comparison(rows, f"{experiment.name} ({experiment.where})")
    print(f"run folders and checkpoints: {shown(root)}")
