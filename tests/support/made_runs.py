"""Run folders with chosen scores, written by the engine's own code without any training.

The outcome of every group is therefore known, and a folder of 1,400 groups takes a second.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.engine.evaluation import evaluate
from ttm_jax.engine.pseudo_labels import choose, induce
from ttm_jax.engine.resumable_run import Run, matching_rows
from ttm_jax.runs.folder import RunFolder
from ttm_jax.runs.identity import dataset_checksum
from ttm_jax.runs.pictures import save_pictures
from ttm_jax.training.schedules import tau_schedule

RIGHT = np.array([[1.0, 0.2], [0.1, 0.9]])  # margin 1.6, GroupScore counts it
RIGHT_BY_MATCH = np.array([[1.0, 0.9], [0.8, 0.75]])  # margin 0.05, GroupScore does not
WRONG = np.array([[0.2, 0.9], [0.7, 0.1]])  # margin 1.3
TIE = np.zeros((2, 2))

# A run with the paper's settings for SigLIP-B16 on MMVP-VLM.
MMVP = TTMConfig(tau_1=2.0, tau_T=0.1, schedule="cosine", lr=2e-5, augment=True)
NAMES = {"google/siglip": "siglip_b16"}

# id: score matrices of the models after iterations 0, 1, 2
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
    """One group per fate; each image has a single colour."""
    groups = []
    for number, (fate, captions) in enumerate(CAPTIONS.items()):
        drawn = tuple(np.full((20, 30, 3), 40 * number + 20 * side, np.uint8) for side in range(2))
        tags = ("odd" if number % 2 else "even", f"<b>{fate}</b>")
        groups.append(Group(fate, drawn, captions, (0, 1) if truth else None, tags))
    return GroupedDataset.from_groups(groups, name)


def fate_scores() -> list[np.ndarray]:
    """[group, image, text] after each iteration."""
    return [np.stack([matrices[t] for matrices in FATES.values()]) for t in range(3)]


def write_run(
    path: Path,
    grouped: GroupedDataset,
    history: Sequence[np.ndarray | tuple[np.ndarray, ...]],
    config: TTMConfig = CONFIG,
    seed: int = 0,
    source: str = "memory",
    watched: bool = False,
) -> Path:
    """A finished run whose models gave these scores; several shapes have a tuple each.

    If it is `watched`, its rows also have estimates without labels, and the last one an alarm.
    """
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
    save_pictures(path, grouped)
    run = Run(path, dataset, config, {})
    taus = tau_schedule(config.schedule, config.tau_1 or 0.0, config.tau_T, config.iterations)
    for iteration, values in enumerate(history):
        blocks = values if isinstance(values, tuple) else (values,)
        scores = tuple(block.astype(np.float32) for block in blocks)
        metrics = evaluate(scores, grouped, config.matching)
        if iteration == 0:
            run.log(0, scores, metrics, 0.5, known=_known(0, len(history)) if watched else None)
            continue
        tau = float(taus[iteration - 1])
        before = induce(run.scores[-1], config.matching)
        labels = choose(
            dataset.blocks, before, tau, kind=config.matching, unit=config.tau_unit,
            oracle=config.oracle,
        )  # fmt: skip
        losses = np.linspace(2 / iteration, 1 / iteration, 6).astype(np.float32)
        known = _known(iteration, len(history)) if watched else None
        run.log(iteration, scores, metrics, 1.0, labels, losses, config.lr, known=known)
    rows = matching_rows(dataset, run.scores[-1], config.matching)
    RunFolder(path).finish(list(rows), {"seed": seed, "final": run.rows[-1]["metrics"]})
    return path


def _known(iteration: int, count: int) -> dict[str, object]:
    """What a row says without labels: estimates that fall, and an alarm in the last iteration."""
    value = 0.9 - 0.3 * iteration
    interval = {"value": value, "low": value - 0.05, "high": value + 0.05}
    known: dict[str, object] = {
        "estimate": {"tau": 1.0, "p_value": 0.01, "go_ahead": True, "precision": interval,
                     "accuracy": interval},
        "grounded": {"blind": 0.2, "gain": 0.3},
        "captions": 5.0,
    }  # fmt: skip
    if iteration == count - 1:
        known["alarm"] = {"back_to": 0, "why": "the estimated share of right matchings fell"}
    return known


def write_fates(folder: Path, seeds: Sequence[int] = (0, 1), **settings: object) -> Path:
    """An experiment in which group "to-right" becomes correct, and so on."""
    for seed in seeds:
        write_run(folder / f"seed_{seed}", pictured_dataset(), fate_scores(), seed=seed, **settings)  # type: ignore[arg-type]
    return folder


def mixed_dataset() -> GroupedDataset:
    """Three groups of 2 x 2, two of 1 x 3 and two of 3 x 2, with the truth."""
    shapes = {(2, 2): (3, (1, 0)), (1, 3): (2, (2,)), (3, 2): (2, (1, -1, 0))}
    groups = []
    for (images, captions), (count, truth) in shapes.items():
        for number in range(count):
            name = f"{images}x{captions}-{number}"
            drawn = tuple(np.full((9, 7, 3), 30 * k + number, np.uint8) for k in range(images))
            texts = tuple(f"caption {k} of {name}" for k in range(captions))
            groups.append(Group(name, drawn, texts, truth, (f"tag {number}",)))
    return GroupedDataset.from_groups(groups, "mixed")


def write_mixed(path: Path) -> Path:
    """A run on groups of three shapes, with random scores."""
    rng, dataset = np.random.default_rng(1), mixed_dataset()
    history = [
        tuple(rng.normal(size=(len(block), *block.shape)) for block in dataset.blocks)
        for _ in range(3)
    ]
    return write_run(path, dataset, history)


def write_many(folder: Path, groups: int, size: int = 16, iterations: int = 2) -> Path:
    """One seed with many groups of small images; scores are random and improve."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (groups, 2, size, size, 3), dtype=np.uint8)
    made = [
        Group(f"group-{n:04d}", tuple(pixels[n]), (f"thing {n} left", f"thing {n} right"), (0, 1),
              (f"tag-{n % 7}",))
        for n in range(groups)
    ]  # fmt: skip
    dataset = GroupedDataset.from_groups(made, "many")
    noise = rng.normal(size=(groups, 2, 2))
    history = [noise + 0.3 * t * np.eye(2) for t in range(iterations + 1)]
    config = TTMConfig(tau_1=1.0, iterations=iterations)
    write_run(folder / "seed_0", dataset, history, config)
    return folder


def paper_run(folder, config, seed=0, dataset="mmvp_vlm", groups=135):
    """Scores that reproduce the paper's counts: 31 by GroupScore, 110 by GroupMatch of 135."""
    pool = [np.zeros((4, 4, 3), np.uint8)]
    data = GroupedDataset.from_groups(
        [Group(str(n), (pool[0], pool[0].copy()), ("x", "y"), (0, 1)) for n in range(groups)],
        dataset,
    )
    matrix = np.array([[0.2, 0.9], [0.7, 0.1]])
    scores = np.tile(matrix, (groups, 1, 1))
    scores[:110] = [[1.0, 0.9], [0.8, 0.75]]
    scores[:31] = [[1.0, 0.2], [0.1, 0.9]]
    after = scores.copy()
    after[: 118 + seed] = [[1.0, 0.2], [0.1, 0.9]]
    # Only the first iteration is written: no test depends on the others.
    history = [scores, after]
    return write_run(folder / f"seed_{seed}", data, history, config, seed, "google/siglip")
