"""One assignment of n images to n captions: certified, without a matrix, beside dense solvers.

    python benchmarks/global_matching.py
    python benchmarks/global_matching.py --sizes 100000 --dense-up-to 0

The embeddings have what real collections have and random numbers do not: clusters of similar
pictures, near-duplicates, and hubs (captions that are close to everything). Each measurement runs
in its own process, for its peak memory; the solvers take turns, so that other work on the machine
disturbs all of them alike. Wall and CPU time are given: a busy machine stretches the former.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ttm_jax.matching.large.embeddings import Embeddings

Solver = Literal["certified", "dense", "scipy", "lapx"]
SCALE = 50.0  # of logits; CLIP's is 100
_INNER = 64  # dimensions in which embeddings really differ


def collection(n: int, dimension: int, seed: int = 0, equal: float = 0.0) -> Embeddings:
    """Images and captions of one collection, in different orders.

    A pair shares a point near the centre of a cluster of about 50; both sides add noise of the
    length of a centre, so that a picture has many captions that could be its own. One picture in
    ten is a near-duplicate of another, and one caption in a hundred is a hub. Of the captions, the
    share `equal` is one sentence.
    """
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        """Of length about 1."""
        return rng.normal(size=shape).astype(np.float32) / np.float32(np.sqrt(shape[-1]))

    inner = min(_INNER, dimension)
    centres = normal(max(2, n // 50), inner)
    points = centres[rng.integers(0, len(centres), n)] + 0.5 * normal(n, inner)
    copies = rng.choice(n, n // 10, replace=False)
    points[copies] = points[rng.integers(0, n, len(copies))] + 0.05 * normal(len(copies), inner)
    images, texts = (points + normal(n, inner) for _ in range(2))
    hubs = rng.choice(n, n // 100, replace=False)
    texts[hubs] = 0.5 * texts[hubs] + centres[rng.integers(0, len(centres), (len(hubs), 8))].mean(1)
    outer = normal(inner, dimension)
    images, texts = _unit(images @ outer), _unit(texts @ outer)
    texts = texts[rng.permutation(n)]
    if equal:
        texts[rng.choice(n, int(equal * n), replace=False)] = texts[0]
    return Embeddings(images, texts, SCALE, 0.0)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def measure(solver: Solver, n: int, dimension: int, equal: float) -> dict[str, Any]:
    """One solver on one size; run in a process of its own."""
    given = collection(n, dimension, equal=equal)
    found: dict[str, Any] = {}
    before = time.perf_counter(), _cpu()
    if solver == "certified":
        from ttm_jax.matching.large.certified import assign_embeddings

        def show(done: Any) -> None:
            print(done, file=sys.stderr, flush=True)

        result = assign_embeddings(given, on_round=show)
        found |= vars(result.rounds[-1])
        total, unique = result.similarity.sum(), result.unique
    else:
        scores = given.images @ given.texts.T
        scores *= given.scale
        if solver == "dense":
            from ttm_jax.matching.assignment import assign

            columns, unique = assign(scores)
        elif solver == "scipy":
            from scipy.optimize import linear_sum_assignment

            columns, unique = linear_sum_assignment(scores, maximize=True)[1], np.zeros(0, bool)
        else:
            import lap

            columns, unique = lap.lapjv(-scores)[1], np.zeros(0, bool)
        total = scores[np.arange(n), columns].astype(np.float64).sum()
    return {
        **found,
        "wall": time.perf_counter() - before[0],
        "cpu": _cpu() - before[1],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "total": float(total),
        "unique": int(unique.sum()),
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(solver: Solver, n: int, dimension: int, equal: float = 0.0) -> dict[str, Any]:
    """`measure` in a new process."""
    request = json.dumps([solver, n, dimension, equal])
    done = subprocess.run(
        [sys.executable, __file__, "--request", request],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of log(value) over log(n)."""
    x, y = np.log(np.asarray(points, np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def compare(
    console: Console, sizes: Sequence[int], dimension: int, solvers: Sequence[Solver], most: int
) -> None:
    """A table over sizes, and the exponents of time and memory."""
    table = Table(box=SIMPLE_HEAD, title=f"n images to n captions, {dimension} dimensions")
    headings = ("n", "solver", "wall s", "CPU s", "GB", "rounds", "pairs", "proved")
    for name in headings:
        table.add_column(name, justify="right", no_wrap=True)
    measured: dict[str, list[tuple[int, float, float]]] = {}
    for n in sizes:
        totals = []
        for solver in solvers:
            if solver != "certified" and n > most:
                continue
            found = run(solver, n, dimension)
            totals.append(found["total"])
            measured.setdefault(solver, []).append((n, found["cpu"], found["peak"]))
            certified = solver == "certified"
            table.add_row(
                f"{n:,}",
                solver,
                f"{found['wall']:.1f}",
                f"{found['cpu']:.1f}",
                f"{found['peak']:.2f}",
                str(found["number"]) if certified else "",
                f"{found['pairs']:,}" if certified else "",
                ("yes" if not found["violations"] else "no") if certified else "",
            )
            console.print(f"{n:,} {solver}: {json.dumps(found)}", highlight=False)
        if max(totals) - min(totals) > 1e-6 * abs(totals[0]):
            raise SystemExit(f"the totals differ: {totals}")
    console.print(table)
    for solver, points in measured.items():
        if len(points) > 1:
            time_slope = exponent([(n, cpu) for n, cpu, _ in points])
            memory_slope = exponent([(n, peak) for n, _, peak in points])
            console.print(f"{solver}: CPU time ~ n^{time_slope:.2f}, memory ~ n^{memory_slope:.2f}")


def main(
    sizes: tuple[int, ...] = (2_000, 5_000, 10_000, 20_000),
    dimension: int = 256,
    solvers: tuple[Solver, ...] = ("certified", "dense"),
    dense_up_to: int = 20_000,
    equal: tuple[float, ...] = (),
    request: str | None = None,
) -> None:
    """Compare solvers of the global assignment.

    Args:
        sizes: values of n.
        dimension: of the embeddings.
        solvers: certified (without a matrix), dense (scipy with unique pairs), scipy (without
            them), lapx (if it is installed).
        dense_up_to: the largest n for solvers that need the matrix.
        equal: also measure collections in which this share of the captions is the same.
        request: for internal use: measure one solver and print JSON.
    """
    if request is not None:
        print(json.dumps(measure(*json.loads(request))))
        return
    console = Console()
    compare(console, sizes, dimension, solvers, dense_up_to)
    for share in equal:
        for n in sizes:
            found = run("certified", n, dimension, share)
            console.print(
                f"{n:,}, {share:.0%} equal captions: {json.dumps(found)}", highlight=False
            )


if __name__ == "__main__":
    tyro.cli(main)
