"""How an experiment of the paper runs: data, model, a run a seed, and the row beside the paper's.

    <run dir>/experiment.json     what is run
    <run dir>/summary.json        the numbers of all seeds, the paper's, and the verdicts
    <run dir>/seed_0/ ...         the run folders (docs/ttm.md)

An experiment with several arms has such a folder for each, named by its label, and `results.md` and
`results.csv` over all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from configs.experiments import Arm, Experiment
from experiments._flags import Flags, check, root_of
from experiments._load import Data, load_data, load_model, model_source
from ttm_jax.config import TTMConfig
from ttm_jax.errors import InputError
from ttm_jax.files import read_json, write_json, write_text

if TYPE_CHECKING:
    from ttm_jax.report.verdict import Comparison


@dataclass(frozen=True)
class Plan:
    """Everything that decides a run, before anything heavy is loaded."""

    experiment: Experiment
    arm: Arm
    flags: Flags
    folder: Path
    correction: bool = True
    """Of the two images that WhatsUp A mislabels."""

    @property
    def config(self) -> TTMConfig:
        return self.arm.config(self.flags.small).with_iterations(self.flags.iterations)

    @property
    def source(self) -> str:
        return model_source(self.arm, self.flags)

    def note(self, data: Data) -> str:
        """Why the numbers cannot be held against the paper's; empty if they can."""
        if self.flags.small:
            return "a small model on the procedural world"
        if self.flags.model is not None:
            return "another model than the paper's"
        return "" if data.comparable else "not the paper's data"


def main(experiment: Experiment, about: str | None) -> None:
    """The whole command of an experiment without flags of its own."""
    run_experiment(experiment, tyro.cli(Flags, description=about))


def run_experiment(experiment: Experiment, flags: Flags, correction: bool = True) -> None:
    """Run or resume every arm, then show all rows together."""
    check(flags)
    plans = make_plans(experiment, flags, correction)
    rows = run_plans(plans)
    finish(rows, root_of(flags, experiment.name), experiment, len(plans) > 1)


def make_plans(experiment: Experiment, flags: Flags, correction: bool = True) -> list[Plan]:
    from configs.experiments import EXPERIMENTS

    (whole,) = (e for e in EXPERIMENTS if e.name == experiment.name)
    root, single = root_of(flags, experiment.name), len(whole.arms) == 1
    suffix = "" if correction else "_as_released"
    return [
        Plan(experiment, arm, flags, root if single else root / (arm.label + suffix), correction)
        for arm in experiment.arms
    ]


def run_plans(plans: Sequence[Plan]) -> "list[Comparison]":
    """The rows; data and model are loaded once where several arms share them."""
    rows: list[Comparison] = []
    models: dict[str, Any] = {}
    for plan in plans:
        data = load_data(plan.arm, plan.flags, plan.correction)
        open_folder(plan, data)
        if plan.source not in models:
            models = {plan.source: load_model(plan.source)}  # one at a time
        rows.append(run_plan(plan, data, models[plan.source]))
    return rows


def open_folder(plan: Plan, data: Data) -> None:
    """Say in the folder what is run there, or make sure that it is the same."""
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
    path = plan.folder / "experiment.json"
    if path.exists():
        old = read_json(path)
        different = [name for name in record if old.get(name) != record[name]]
        if different:
            said = "; ".join(f"{name}: {old.get(name)} -> {record[name]}" for name in different)
            raise InputError(f"{plan.folder} holds another experiment: {said}. Give another folder")
    write_json(path, record)


def run_plan(plan: Plan, data: Data, model: Any) -> "Comparison":
    """Run or resume the seeds of an arm; its row, which is also in its summary.json."""
    import jax

    from ttm_jax.console import Console
    from ttm_jax.report.verdict import Comparison, compare, paper_row
    from ttm_jax.seeds import run_seeds, summarise
    from ttm_jax.trackers import open_trackers

    flags, preset, config = plan.flags, plan.arm.preset, plan.config
    title = f"{plan.experiment.name} {plan.arm.label}"
    with Console("quiet" if flags.quiet else "auto") as console:
        console.say(f"{title}: {len(data.dataset)} groups, {plan.source}, in {plan.folder}")
        results = run_seeds(
            model,
            data.dataset,
            config,
            flags.seeds,
            plan.folder,
            resume=flags.resume,
            console=console,
            one_per_device=flags.one_per_device,
            track=lambda folder, seed: open_trackers(
                folder, f"{title} {seed}", tensorboard=flags.tensorboard, wandb=flags.wandb
            ),
        )
    note = plan.note(data)
    paper = None if note else paper_row(preset.dataset, preset.model, preset.ttm, config)
    row = Comparison(
        data.dataset.name if flags.small else preset.dataset,
        plan.source if flags.small or flags.model else preset.model,
        plan.arm.title,
        flags.seeds,
        compare(results, paper),
        note,
    )
    if jax.process_index() == 0:
        summary = {**summarise(results), "data": data.facts, "comparison": row.as_json()}
        write_json(plan.folder / "summary.json", summary)
    return row


def finish(rows: "Sequence[Comparison]", root: Path, experiment: Experiment, several: bool) -> None:
    """The table on the screen and, of several arms, in files."""
    import jax

    from ttm_jax.report.comparison_table import csv_text, markdown, print_comparison

    if jax.process_index() != 0:
        return
    if several:
        write_text(root / "results.md", markdown(rows))
        write_text(root / "results.csv", csv_text(rows))
    print_comparison(rows, f"{experiment.name} ({experiment.where})")
    print(f"run folders and checkpoints: {root}")
