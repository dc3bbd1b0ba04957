"""The same variants with the same small models, trained in several ways: one column per way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from experiments._checks import check_at_least, check_seeds
from ttm_jax.cli.options import given
from ttm_jax.config import TTMConfig


def compare_ways(
    ways: Callable[[TTMConfig], Mapping[str, TTMConfig]],
    *,
    models: Sequence[str],
    variants: Sequence[str],
    seeds: tuple[int, ...],
    groups: int | None,
    iterations: int | None,
    run_dir: Path,
    name: str,
    quiet: bool,
) -> None:
    """Run or resume every way and print the table; NAME.md and NAME.json grow with each row.

    Args:
        ways: From the usual settings of a variant to those of each column.
        models: Checkpoints.
        variants: Benchmarks of the procedural world.
        seeds: Seeds of the order of the batches.
        groups: Groups per variant; None is the usual number.
        iterations: Iterations; None is the usual number.
        run_dir: Where everything goes.
        name: Name of the two files.
        quiet: Print the table only, no progress.
    """
    check_seeds(seeds)
    check_at_least("--groups", groups)
    check_at_least("--iterations", iterations)
    from ttm_jax.data import world
    from ttm_jax.files import write_json, write_text
    from ttm_jax.report.tables.ways import WaysRow, ways_table
    from ttm_jax.runs.console import Console
    from ttm_jax.small.run_variant import run_variant
    from ttm_jax.small.settings import GROUPS, small_config

    shapes = {variant: world.find_variant(variant).shape for variant in variants}
    rows: list[WaysRow] = []
    with Console("quiet" if quiet else "plain") as console:
        for model in models:
            for variant in variants:
                config = small_config(shapes[variant])
                config = replace(config, iterations=given(iterations, config.iterations))
                folder = run_dir / f"{variant}_{model.replace('/', '_')}"
                results = {
                    way: run_variant(
                        variant, model, "group", changed, seeds,
                        folder / way.replace(":", "_").replace(" ", "_"), console,
                        groups=given(groups, GROUPS),
                    )
                    for way, changed in ways(config).items()
                }  # fmt: skip
                rows.append(WaysRow.of(variant, model, results))
                write_text(run_dir / f"{name}.md", ways_table(rows))
                write_json(run_dir / f"{name}.json", {"rows": [row.as_json() for row in rows]})
    print(ways_table(rows), end="")
