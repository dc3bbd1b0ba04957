"""SimpleMatch: overfit a model to its own first matchings, so that GroupMatch becomes GroupScore.

    python -m experiments.simple_match
    python -m experiments.simple_match --row winoground_clip_b16 colorswap_siglip_l16
    python -m experiments.simple_match --small

Section 3.1 of the paper reports GroupMatch and says that overfitting turns it into GroupScore. This
does the overfitting, without labels: all groups are selected, and training goes on at a constant
rate until GroupScore follows every matching, or for --max-epochs. The default rows are the three of
SigLIP-B16 in Figure 1. --iterations and --tau-1 have no effect here.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from configs.experiments import SIMPLE_MATCH
from experiments._checks import check_at_least
from experiments._flags import Flags, check, root_of, start
from experiments._load import Data, load_data, load_model
from experiments._paper import Plan, make_plans, open_folder, show_outlooks
from experiments._raw import name_of_data, name_of_model
from ttm_jax.bucket_storage import shown
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import parse
from ttm_jax.errors import InputError
from ttm_jax.files import read_json
from ttm_jax.hosts.shared_folder import write_json, write_text

if TYPE_CHECKING:
    from ttm_jax.report.tables.overfit import OverfitRow

Row = Literal[
    "winoground_clip_b16", "winoground_siglip_b16", "winoground_siglip_l16", "mmvp_vlm_clip_b16",
    "mmvp_vlm_siglip_b16", "colorswap_clip_b16", "colorswap_siglip_b16", "colorswap_siglip_l16",
    "winoground_smolvlm_256m", "mmvp_vlm_smolvlm_256m", "colorswap_smolvlm_256m",
    "whatsup_a_left_right_clip_b32", "whatsup_a_on_under_clip_b32",
    "whatsup_b_left_right_clip_b32", "whatsup_b_front_behind_clip_b32",
]  # fmt: skip


@dataclass(frozen=True)
class Args(Flags):
    row: tuple[Row, ...] = (
        "winoground_siglip_b16", "mmvp_vlm_siglip_b16", "colorswap_siglip_b16",
    )  # fmt: skip
    """Benchmark and model."""
    seeds: tuple[int, ...] = (0,)
    """One overfitting per seed; the seed decides the order of the batches."""
    max_epochs: int = 200
    """Stop after this many epochs, even if GroupScore does not follow every matching yet."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.simple_match", __doc__)
    check(args)
    check_at_least("--max-epochs", args.max_epochs)
    args = start(args)
    plans = make_plans(SIMPLE_MATCH.only(args.row), args)
    if args.dry_run:
        show_outlooks(plans)
        return
    from ttm_jax.report.tables.overfit import markdown

    rows: list[OverfitRow] = []
    root = root_of(args, SIMPLE_MATCH.name)
    models: dict[str, Any] = {}
    for plan in plans:
        data = load_data(plan.arm, args)
        open_folder(plan, data)
        for seed in args.seeds:
            if plan.source not in models:
                models = {plan.source: load_model(plan.source)}  # one at a time
            found = overfit(plan, data, models[plan.source], seed, args)
            rows.append(row_of(plan, data, seed, found))
            write_text(root / "results.md", markdown(rows))
    print(markdown(rows), end="")
    print(f"also in {shown(root)}/results.md")


def overfit(plan: Plan, data: Data, model: Any, seed: int, args: Args) -> dict[str, Any]:
    """simple_match.json of one seed: made now, or by the same command before."""
    from dataclasses import asdict

    from ttm_jax.engine.simple_match import simple_match
    from ttm_jax.runs.console import Console

    folder: Path = plan.folder / f"seed_{seed}"
    record = {"config": asdict(plan.config), "max_epochs": args.max_epochs, "seed": seed}
    from ttm_jax.hosts.exchange import from_first, wait_for_all

    def earlier() -> Any:
        if not (folder / "simple_match.json").exists():
            return None
        if not args.resume:
            raise InputError(f"{folder} already holds a run; rerun without --no-resume")
        if read_json(folder / "settings.json") != record:
            raise InputError(f"{folder} was run with other settings; give another --run-dir")
        return read_json(folder / "simple_match.json")

    found = from_first(earlier)
    if found is not None:
        return found
    with Console("quiet" if args.quiet else "auto") as console:
        console.say(f"simple_match {plan.arm.label}: {len(data.dataset)} groups, {plan.source}")
        write_json(folder / "settings.json", record)
        simple_match(
            model,
            data.dataset,
            plan.config,
            folder,
            seed,
            max_epochs=args.max_epochs,
            console=console,
        )
    wait_for_all()
    return read_json(folder / "simple_match.json")


def row_of(plan: Plan, data: Data, seed: int, found: dict[str, Any]) -> "OverfitRow":
    from ttm_jax.data.paper import find_result
    from ttm_jax.report.tables.overfit import OverfitRow

    preset = plan.arm.preset
    paper = find_result(preset.dataset, preset.model) if plan.is_comparable(data) else None
    names = (name_of_data(plan, data), name_of_model(plan))
    return OverfitRow.of(*names, seed, found, paper, plan.note(data))


if __name__ == "__main__":
    run(main)
