"""Speed of matching and metrics, compared with a loop over groups and with vectorised numpy.

    python benchmarks/matching.py
    python benchmarks/matching.py --quick           # small sizes: does it run?

Groups: best matching, margin and all metrics of 1,000,000 groups of 2 x 2 and 200,000 of 4 x 4. All
versions must give the same counts. Global: one assignment of n images to n captions, including the
check which pairs are unique; each size runs in its own process, to measure its peak memory.
"""

import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from json import dumps, loads
from pathlib import Path

import numpy as np
import tyro
from _results import Results
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ttm_jax.matching.checks import diagonal
from ttm_jax.matching.match import match_global
from ttm_jax.matching.metrics import evaluate

GROUPS = ((1_000_000, 2), (200_000, 4))
SIZES = (800, 2_000, 5_000, 10_000)
LOOP_SAMPLE = 4_000  # groups used to time the loop; the result is extrapolated


def one_group(s: np.ndarray) -> tuple[bool, bool, bool, bool, int]:
    """Matching, margin and the five metrics of one group, as the paper defines them."""
    k = len(s)
    totals = {p: sum(s[i, p[i]] for i in range(k)) for p in itertools.permutations(range(k))}
    best, second = sorted(totals, key=totals.__getitem__, reverse=True)[:2]
    margin = totals[best] - totals[second]
    found = [all(s[i, i] > s[i, j] for j in range(k) if j != i) for i in range(k)]
    image = all(s[i, i] > s[j, i] for i in range(k) for j in range(k) if j != i)
    return all(found), image, all(found) and image, margin > 0 and best == (*range(k),), sum(found)


def by_loop(scores: np.ndarray) -> list[int]:
    return np.sum([one_group(s) for s in scores.astype(np.float64)], axis=0).tolist()


def by_arrays(scores: np.ndarray) -> list[int]:
    """The same for all groups at once, with the axes in their original order."""
    side = scores.shape[1]
    rows = np.arange(side)
    matchings = np.array(list(itertools.permutations(range(side))))
    totals = scores.astype(np.float64)[:, rows, matchings].sum(axis=2)
    ordered = np.partition(totals, -2, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    best = matchings[totals.argmax(axis=1)]
    own = scores[:, rows, rows]
    others = np.where(np.eye(side, dtype=bool), -np.inf, scores)
    found = own > others.max(axis=2)
    text, image = found.all(axis=1), (own > others.max(axis=1)).all(axis=1)
    match = (margin > 0) & (best == rows).all(axis=1)
    return [int(x.sum()) for x in (text, image, text & image, match, found)]


def by_ttm_jax(scores: np.ndarray) -> list[int]:
    return [rate.count for rate in evaluate(scores, diagonal(scores)).rates().values()]


def seconds(function: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def time_groups(console: Console, share: int, results: Results) -> None:
    table = Table(box=SIMPLE_HEAD, title="Matching, margin and all metrics of groups")
    for name in ("groups", "version", "seconds", "loop / this", "numpy / this"):
        table.add_column(name, justify="right", no_wrap=True)
    for groups, side in ((groups // share, side) for groups, side in GROUPS):
        scores = np.random.default_rng(0).normal(size=(groups, side, side)).astype(np.float32)
        sample = scores[:LOOP_SAMPLE]
        loop = seconds(lambda s=sample: by_loop(s), 7) * groups / LOOP_SAMPLE
        arrays = seconds(lambda s=scores: by_arrays(s), 5)
        ours = seconds(lambda s=scores: by_ttm_jax(s), 25)
        if by_loop(sample) != by_ttm_jax(sample) or by_arrays(scores) != by_ttm_jax(scores):
            raise SystemExit("the versions disagree")
        label = f"{groups:,} of {side}x{side}"
        for name, took in (
            ("loop", loop),
            ("vectorised numpy", arrays),
            ("ttm_jax", ours),
        ):
            table.add_row(label, name, f"{took:.4f}", f"{loop / took:.0f}", f"{arrays / took:.2f}")
            label = ""
        subject = f"{groups:,} groups of {side}x{side}"
        results.values(subject, "s; loop over groups", ours, loop)
        results.values(subject, "s; vectorised numpy", ours, arrays)
    console.print(table)


def global_scores(n: int) -> np.ndarray:
    """Similar to the logits of a weak model: inner products, with more noise than signal."""
    rng = np.random.default_rng(0)
    text = rng.normal(size=(n, 64)).astype(np.float32)
    image = text + 2.0 * rng.normal(size=(n, 64)).astype(np.float32)
    scores = image @ text.T
    scores /= 8  # in place, because the peak memory is measured
    return scores


def measure_global(n: int) -> dict[str, float]:
    """Measure one size; run in a separate process."""
    from scipy.optimize import linear_sum_assignment

    scores = global_scores(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    found = match_global(scores)
    ours = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    columns = linear_sum_assignment(scores, maximize=True)[1]
    scipy = time.perf_counter() - start
    if (columns != found.matching).any():
        raise SystemExit("the assignments disagree")
    return {
        "seconds": ours,
        "scipy": scipy,
        "right": float((found.matching == np.arange(n)).mean()),
        "peak_gb": peak / 2**20,
        "added_gb": (peak - before) / 2**20,
    }


def time_global(console: Console, sizes: tuple[int, ...], results: Results) -> None:
    table = Table(
        box=SIMPLE_HEAD, title="Global assignment of n images to n captions, with unique pairs"
    )
    for name in ("n", "seconds", "of scipy's", "peak GB", "GB besides scores", "right"):
        table.add_column(name, justify="right")
    for n in sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", str(n)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = loads(done.stdout)
        table.add_row(
            f"{n:,}",
            f"{found['seconds']:.2f}",
            f"{found['seconds'] / found['scipy']:.2f} x",
            f"{found['peak_gb']:.2f}",
            f"{found['added_gb']:.2f}",
            f"{found['right']:.1%}",
        )
        what = "s, with unique pairs; scipy without"
        results.values(f"global, {n:,} x {n:,}", what, found["seconds"], found["scipy"])
    console.print(table)


def main(
    sizes: tuple[int, ...] = SIZES,
    measure: int | None = None,
    quick: bool = False,
    json: Path | None = None,
) -> None:
    """Time groups and global assignments.

    Args:
        sizes: values of n for the global assignments.
        measure: for internal use: measure one size and print JSON.
        quick: use the two smallest sizes and a fiftieth of the groups.
        json: file to write the rows to as well.
    """
    if measure is not None:
        print(dumps(measure_global(measure)))
        return
    console, results = Console(), Results("matching")
    # First: a child process inherits the peak memory of this one.
    time_global(console, sizes[:2] if quick else sizes, results)
    time_groups(console, 50 if quick else 1, results)
    results.save(json)


if __name__ == "__main__":
    tyro.cli(main)
