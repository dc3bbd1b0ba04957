"""Run or resume whole tables of the paper; write them beside the paper's as Markdown and CSV.

    python -m experiments.reproduce --table main_2x2
    python -m experiments.reproduce --table sugarcrepe_1x2 whatsup_1x4 whatsup_2x2
    python -m experiments.reproduce --small
    python -m experiments.reproduce --check

The runs are those of the single experiments,
in the same folders: what is finished there is not run again. Tables are rewritten after every row.
A row that cannot run (a gated benchmark, a model that cannot be downloaded) does not stop the
others. Rows of GPT-4.1 are read from the folders of its own commands, which cost money.

--check trains nothing: it scores every model on every benchmark once and compares the paper's
whole-number counts. Where one differs, it tries the choices that are known to move numbers and says
which one gives the published count, and which groups flip. Exit code 0: all counts are equal; 1:
some differ; 2: none differs, but something could not be scored.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from configs.experiments import EXPERIMENTS, GPT, WHERE
from experiments._checks import check_names
from experiments._flags import Flags, check, root_of, start
from experiments._paper import Plan, make_plans, run_plans, show_outlooks
from ttm_jax.bucket_storage import shown
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.data.paper import paper_results
from ttm_jax.errors import InputError

if TYPE_CHECKING:
    from ttm_jax.report.tables.verdict import Comparison

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
    rows: Annotated[tuple[str, ...], option("NAME [NAME ...]", "all")] = ()
    """Only these experiments of the tables (names from `python -m experiments`)."""
    check: Switch = False
    """Compare the published counts without training, and look for the reason where one differs."""


def main() -> int | None:
    args = parse(Args, sys.argv[1:], "python -m experiments.reproduce", __doc__)
    check(args)
    check_names("--rows", args.rows, names_in(args.table))
    args = start(args)
    if args.check:
        from experiments._check import run_check

        return run_check(args, args.table, args.rows)
    root = args.run_dir or Path("runs")
    plans = {table: plans_of(table, args, root) for table in args.table}
    if args.config is not None and sum(map(len, plans.values())) > 1:
        raise InputError("--config is for one run; choose one with --table and --rows")
    if args.dry_run:
        show_outlooks([plan for part in plans.values() for plan in part])
        return None
    failed: list[str] = []
    said: dict[str, str] = {}
    for table in args.table:
        rows = gpt_rows(table, args, root)
        if not rows and not plans[table]:
            continue
        for plan in plans[table]:
            try:
                rows += run_plans([plan])
            except InputError as error:
                name, text = plan.folder.name, str(error)
                first = said.setdefault(text, name)  # benchmarks are shared by several rows
                what = text if first == name else f"the same as for {first}"
                print(f"error: {name}: {what}", file=sys.stderr, flush=True)
                failed.append(f"{plan.experiment.name} {plan.arm.label}")
            write_table(table, rows, root, args.small)
        write_table(table, rows, root, args.small)
        show_table(table, rows)
    print(f"tables and run folders: {shown(root)}")
    if failed:
        raise InputError(f"these rows are missing, see above: {', '.join(failed)}")
    return None


def names_in(tables: tuple[Table, ...]) -> list[str]:
    """The experiments that have a row in one of the tables."""
    names = [e.name for e in EXPERIMENTS if any(arm.table in tables for arm in e.arms)]
    return names + (list(GPT) if "main_2x2" in tables else [])


def plans_of(table: Table, args: Args, root: Path) -> list[Plan]:
    """The rows of a table in the paper's order, each in the folder of its own command."""
    plans = []
    for experiment in EXPERIMENTS:
        wanted = not args.rows or experiment.name in args.rows
        labels = [arm.label for arm in experiment.arms if arm.table == table]
        if labels and wanted:
            folder = root / root_of(replace(args, run_dir=None), experiment.name).name
            plans += make_plans(experiment.only(labels), replace(args, run_dir=folder))
    return sorted(plans, key=lambda plan: _place(table, plan))


def _place(table: Table, plan: Plan) -> tuple[int, int, int]:
    rows = [row for row in paper_results() if row.table == table]
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    models = list(dict.fromkeys(row.model for row in rows))
    preset = plan.arm.preset
    return datasets.index(preset.dataset), models.index(preset.model), plan.config.iterations


def gpt_rows(table: Table, args: Args, root: Path) -> "list[Comparison]":
    """GPT-4.1 from the folders of its own commands, or the paper's numbers as "not run"."""
    from ttm_jax.report.tables.gpt_rows import api_row, is_api_run, row_not_run

    if table != "main_2x2" or args.small:
        return []
    chosen = {name: data for name, data in GPT.items() if not args.rows or name in args.rows}
    return [
        api_row(root / name) if is_api_run(root / name) else row_not_run(dataset)
        for name, dataset in chosen.items()
    ]


def write_table(table: Table, rows: "list[Comparison]", root: Path, small: bool) -> None:
    """`table_NAME.md` and `.csv`, with the rows so far."""
    from ttm_jax.hosts.shared_folder import write_text
    from ttm_jax.report.tables.beside_paper import csv_text, markdown

    path = root / (f"table_{table}_small" if small else f"table_{table}")
    rows = in_paper_order(rows)
    write_text(path.with_suffix(".md"), f"# {title_of(table)}\n\n{markdown(rows)}")
    write_text(path.with_suffix(".csv"), csv_text(rows))


def show_table(table: Table, rows: "list[Comparison]") -> None:
    from ttm_jax.report.tables.beside_paper import print_comparison

    if rows:
        print_comparison(in_paper_order(rows), title_of(table))


def in_paper_order(rows: "list[Comparison]") -> "list[Comparison]":
    """Rows of one dataset together, in the order in which the datasets first appear."""
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    return sorted(rows, key=lambda row: datasets.index(row.dataset))


def title_of(table: Table) -> str:
    return f"{table} ({WHERE[table]} of the paper)"


if __name__ == "__main__":
    run(main)
