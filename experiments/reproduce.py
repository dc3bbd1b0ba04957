"""Run or resume whole tables of the paper, and write them beside the paper's as Markdown and CSV.

    python -m experiments.reproduce --table main_2x2
    python -m experiments.reproduce --table sugarcrepe_1x2 whatsup_1x4 whatsup_2x2
    python -m experiments.reproduce --small

The runs are those of the single experiments, in the same folders: what is finished there is not run
again. Tables are written anew after every row. A row that cannot run (a gated benchmark, a model
that is not to be had) does not keep the others from running.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from configs.experiments import EXPERIMENTS, WHERE
from experiments._flags import Flags, check, root_of
from experiments._paper import Plan, make_plans, run_plans
from ttm_jax.cli import run
from ttm_jax.errors import InputError

if TYPE_CHECKING:
    from ttm_jax.report.verdict import Comparison

Table = Literal[
    "main_2x2", "smolvlm", "global", "sugarcrepe_1x2", "whatsup_1x4", "whatsup_2x2", "iterations"
]


@dataclass(frozen=True)
class Args(Flags):
    table: tuple[Table, ...] = (
        "main_2x2", "smolvlm", "global", "sugarcrepe_1x2", "whatsup_1x4", "whatsup_2x2",
        "iterations",
    )  # fmt: skip
    """Tables, by their names in ttm_jax/data/paper/results.csv; the default is all."""
    rows: tuple[str, ...] = ()
    """Only these experiments of the tables (names from `python -m experiments`)."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    check(args)
    root = args.run_dir or Path("runs")
    failed: list[str] = []
    for table in args.table:
        rows: list[Comparison] = []
        for plan in plans_of(table, args, root):
            try:
                rows += run_plans([plan])
            except InputError as error:
                print(f"error: {plan.folder.name}: {error}", file=sys.stderr, flush=True)
                failed.append(f"{plan.experiment.name} {plan.arm.label}")
            write_table(table, rows, root, args.small)
        show_table(table, rows)
    print(f"tables and run folders: {root}")
    if failed:
        raise InputError(f"these rows are missing, see above: {', '.join(failed)}")


def plans_of(table: str, args: Args, root: Path) -> list[Plan]:
    """The rows of a table, each in the folder that its own command would take."""
    known = [e.name for e in EXPERIMENTS if any(arm.table == table for arm in e.arms)]
    plans = []
    for experiment in EXPERIMENTS:
        wanted = not args.rows or experiment.name in args.rows
        labels = [arm.label for arm in experiment.arms if arm.table == table]
        if labels and wanted:
            folder = root / root_of(replace(args, run_dir=None), experiment.name).name
            plans += make_plans(experiment.only(labels), replace(args, run_dir=folder))
    if not plans and args.rows and len(args.table) == 1:
        raise InputError(f"{table} has {', '.join(known)}; not {', '.join(args.rows)}")
    return plans


def write_table(table: str, rows: "list[Comparison]", root: Path, small: bool) -> None:
    """`table_NAME.md` and `.csv`, with the rows that there are by now."""
    from ttm_jax.files import write_text
    from ttm_jax.report.comparison_table import csv_text, markdown

    path = root / (f"table_{table}_small" if small else f"table_{table}")
    write_text(path.with_suffix(".md"), f"# {title_of(table)}\n\n{markdown(rows)}")
    write_text(path.with_suffix(".csv"), csv_text(rows))


def show_table(table: str, rows: "list[Comparison]") -> None:
    from ttm_jax.report.comparison_table import print_comparison

    if rows:
        print_comparison(rows, title_of(table))


def title_of(table: str) -> str:
    return f"{table} ({WHERE[table]} of the paper)"


if __name__ == "__main__":
    run(main)
