"""Two runs side by side, with a paired test: is one better, and on which groups?

    ttm compare runs/mmvp_siglip runs/mmvp_clip
    ttm compare runs/mine/seed_0 runs/mine/seed_0 --iterations 0 10

The test is McNemar's, exact, on the groups that only one of the two gets right.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from ttm_jax.cli.options import Switch, option, parse


def compare(
    a: tyro.conf.Positional[Path],
    b: tyro.conf.Positional[Path],
    iterations: Annotated[tuple[int, int] | None, option("N N", "the last of each")] = None,
    show: int = 10,
    json: Switch = False,
) -> None:
    """Compare two runs on the same groups.

    Args:
        a: A run folder, or an experiment with several seeds.
        b: Another one; seeds that both have are compared pairwise.
        iterations: Compare the model of A after the first with that of B after the second.
        show: How many differing groups to list per seed; 0 lists all.
        json: Print one JSON object instead of tables.
    """
    from ttm_jax.errors import InputError
    from ttm_jax.report.compare import compare_experiments
    from ttm_jax.report.compare_print import print_comparisons
    from ttm_jax.report.run_data import read_experiments

    sides = []
    for path in (a, b):
        found = read_experiments([path])
        if len(found) != 1:
            names = ", ".join(experiment.name for experiment in found)
            raise InputError(f"{path} holds several experiments: {names}; give one of them")
        sides.append(found[0])
    comparisons = compare_experiments(sides[0], sides[1], iterations)
    if json:
        import json as writer

        content = {"a": str(a), "b": str(b), "seeds": [c.as_json() for c in comparisons]}
        print(writer.dumps(content))
    else:
        print_comparisons(str(a), str(b), comparisons, show)


def main(argv: Sequence[str]) -> None:
    parse(compare, argv, "ttm compare", __doc__)
