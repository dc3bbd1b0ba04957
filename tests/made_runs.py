"""Run folders with chosen scores, written by the engine's own code but without training anything.

So the fate of every group is known, and a folder of 1,400 groups takes a second.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ttm_jax import run_pictures
from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.evaluation import evaluate
from ttm_jax.pseudo_labels import choose, induce
from ttm_jax.run import Run, matching_rows
from ttm_jax.runlog import RunFolder, dataset_checksum
from ttm_jax.schedules import tau_schedule

RIGHT = np.array([[1.0, 0.2], [0.1, 0.9]])  # margin 1.6, GroupScore counts it
RIGHT_BY_MATCH = np.array([[1.0, 0.9], [0.8, 0.75]])  # margin 0.05, GroupScore does not
WRONG = np.array([[0.2, 0.9], [0.7, 0.1]])  # margin 1.3
TIE = np.zeros((2, 2))

# id, matrices of the models after iterations 0, 1, 2
FATES = {
    "to-right": (WRONG, RIGHT_BY_MATCH, RIGHT),
    "to-wrong": (RIGHT, RIGHT, WRONG),
    "still-wrong": (WRONG, RIGHT, WRONG),
    "still-right": (RIGHT_BY_MATCH, RIGHT, RIGHT),
    "tied": (TIE, TIE, TIE),
}
CAPTIONS = {
    "to-right": ("a red cat", "a blue cat"),
    "to-wrong": ("<script>window.hacked = true</script>", "</script><img src=x onerror=alert(1)>"),
    "still-wrong": ("a dog & a 'mouse'", 'a mouse and a "dog"'),
    "still-right": ("eine rote Tür", "赤い ドア \u2028"),
    "tied": ("the same", "the same again"),
}
CONFIG = TTMConfig(tau_1=1.0, lr=1e-3, iterations=2, epochs=2, batch_groups=4)


def pictured_dataset(name: str = "made", *, truth: bool = True) -> GroupedDataset:
    """A group for each fate; pictures of one colour each."""
    groups = []
    for number, (fate, captions) in enumerate(CAPTIONS.items()):
        pictures = tuple(
            np.full((20, 30, 3), 40 * number + 20 * side, np.uint8) for side in range(2)
        )
        tags = ("odd" if number % 2 else "even", f"<b>{fate}</b>")
        groups.append(Group(fate, pictures, captions, (0, 1) if truth else None, tags))
    return GroupedDataset.from_groups(groups, name)


def fate_scores() -> list[np.ndarray]:
    """[group, image, text] after each iteration."""
    return [np.stack([matrices[t] for matrices in FATES.values()]) for t in range(3)]


def write_run(
    path: Path,
    grouped: GroupedDataset,
    history: Sequence[np.ndarray],
    config: TTMConfig = CONFIG,
    seed: int = 0,
    source: str = "memory",
) -> Path:
    """A finished run whose models gave these scores (of the one shape of the dataset)."""
    dataset = grouped.ungrouped() if config.matching == "global" else grouped
    shapes = {f"{b.shape[0]}x{b.shape[1]}": len(b) for b in dataset.blocks}
    RunFolder(path).open(
        {
            "config": asdict(config),
            "seed": seed,
            "model": {"source": source, "checksum": "0"},
            "dataset": {
                "name": dataset.name,
                "groups": len(dataset),
                "shapes": shapes,
                "checksum": dataset_checksum(dataset),
            },
        }
    )
    run_pictures.save(path, grouped)
    run = Run(path, dataset, config, {})
    taus = tau_schedule(config.schedule, config.tau_1 or 0.0, config.tau_T, config.iterations)
    for iteration, values in enumerate(history):
        scores = (values.astype(np.float32),)
        metrics = evaluate(scores, grouped, config.matching)
        if iteration == 0:
            run.log(0, scores, metrics, 0.5)
            continue
        tau = float(taus[iteration - 1])
        before = induce(run.scores[-1], config.matching)
        labels = choose(
            dataset.blocks, before, tau, kind=config.matching, unit=config.tau_unit,
            oracle=config.oracle,
        )  # fmt: skip
        losses = np.linspace(2 / iteration, 1 / iteration, 6).astype(np.float32)
        run.log(iteration, scores, metrics, 1.0, labels, losses, config.lr)
    rows = matching_rows(dataset, induce(run.scores[-1], config.matching), config.matching)
    RunFolder(path).finish(list(rows), {"seed": seed, "final": run.rows[-1]["metrics"]})
    return path


def write_fates(folder: Path, seeds: Sequence[int] = (0, 1), **settings: object) -> Path:
    """An experiment in which group "to-right" is flipped to right, and so on."""
    for seed in seeds:
        write_run(folder / f"seed_{seed}", pictured_dataset(), fate_scores(), seed=seed, **settings)  # type: ignore[arg-type]
    return folder


def write_many(folder: Path, groups: int, size: int = 16, iterations: int = 2) -> Path:
    """One seed with many groups of small pictures; scores are random and improve."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (groups, 2, size, size, 3), dtype=np.uint8)
    made = [
        Group(f"group-{n:04d}", tuple(pictures[n]), (f"thing {n} left", f"thing {n} right"), (0, 1),
              (f"tag-{n % 7}",))
        for n in range(groups)
    ]  # fmt: skip
    dataset = GroupedDataset.from_groups(made, "many")
    noise = rng.normal(size=(groups, 2, 2))
    history = [noise + 0.3 * t * np.eye(2) for t in range(iterations + 1)]
    config = TTMConfig(tau_1=1.0, iterations=iterations)
    write_run(folder / "seed_0", dataset, history, config)
    return folder
