"""What can be known without labels, against the truth: the tables of docs/without_labels.md.

    python -m experiments.small_without_labels
    python -m experiments.small_without_labels --models small-siglip --variants color_swap

For each variant of the procedural world: the diagnosis of the unadapted model, Test-Time Matching
with several seeds, and the estimate for the adapted model. Where an image has several captions, the
same with the captions' prior subtracted. Writes without_labels.md and .json beside the runs, which
are those of `experiments.small_table` where they exist, and are resumed.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from experiments._checks import check_at_least, check_seeds
from ttm_jax.bucket_storage import working_folder
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, given, option, parse
from ttm_jax.hosts.join import Hosts, join


@dataclass(frozen=True)
class Args:
    models: tuple[str, ...] = ("small-siglip", "small-clip")
    """Checkpoints."""
    variants: Annotated[tuple[str, ...], option("NAME [NAME ...]", "all")] = ()
    """Benchmarks; `ttm world --list` shows all."""
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    """Seeds of the order of the batches; all use the same data."""
    groups: Annotated[int | None, option("N", "200")] = None
    """Groups per variant."""
    run_dir: Path = Path("runs/small")
    """Where everything goes."""
    hosts: Hosts = "auto"
    """Form one program with the same command on other hosts (TPU pod, SLURM, ...), or do not look
    for any."""
    quiet: Switch = False
    """Print the tables only, no progress."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.small_without_labels", __doc__)
    check_seeds(args.seeds)
    check_at_least("--groups", args.groups)
    join(args.hosts)
    args = replace(args, run_dir=working_folder(args.run_dir))
    from ttm_jax.data import world
    from ttm_jax.engine.diagnosis import diagnose
    from ttm_jax.hosts.shared_folder import write_json, write_text
    from ttm_jax.load import load_model
    from ttm_jax.report.tables.without_labels import WithoutLabels, tables
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS, small_config

    groups = given(args.groups, GROUPS)
    rows = []
    with Console("quiet" if args.quiet else "plain") as console:
        for model in args.models:
            for variant in args.variants or tuple(world.VARIANTS):
                shape = world.find_variant(variant).shape
                config = small_config(shape)
                folder = args.run_dir / f"{variant}_{model.replace('/', '_')}_group"
                ways = {"none": (config, folder)}
                if shape[0] == 1:
                    other = folder.with_name(f"{folder.name}_subtract")
                    ways["subtract"] = (replace(config, prior="subtract"), other)
                results = {
                    way: run_variant(
                        variant, model, "group", changed, args.seeds, path, console, groups=groups
                    )
                    for way, (changed, path) in ways.items()
                }
                found = diagnose(load_model(model), world.make(variant, groups), config)
                rows.append(WithoutLabels.of(variant, model, found, results))
                write_text(args.run_dir / "without_labels.md", tables(rows))
                values = {"rows": [row.as_json() for row in rows]}
                write_json(args.run_dir / "without_labels.json", values)
    print(tables(rows), end="")


if __name__ == "__main__":
    run(main)
