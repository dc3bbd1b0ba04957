"""The whole method in one picture, from a real run: a group, its scores, the selection, the curve.

Everything is read from a run folder with known truth and two images and two captions per group.
"""

import io
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image

from ttm_jax.errors import InputError
from ttm_jax.matching import chance
from ttm_jax.report.decisions import Decisions, decisions
from ttm_jax.report.figures.curves import COLOURS
from ttm_jax.report.run_data import SeedRun
from ttm_jax.runs.pictures import RunPictures

_BLUE, _ORANGE, _GREEN = COLOURS[:3]
_PALE = "#eceff1"
_LETTERS = 24  # of a caption on one line


def draw_method(run: SeedRun, path: Path) -> None:
    """Draw a run of 2x2 groups.

    Args:
        run: A finished run.
        path: The picture; its ending says which kind (.png, .svg, .pdf).

    Raises:
        InputError: The groups have another shape, or truth or pictures are not known.
    """
    fits = set(run.shapes) == {"2x2"} and not run.is_global and run.has_truth
    pictures = run.pictures if fits else None
    if pictures is None:
        raise InputError(f"{run.path}: the picture needs 2x2 groups with known truth and pictures")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    first, last = decisions(run, 0), decisions(run, run.last)
    group = example(first, last)
    figure = plt.figure(figsize=(12, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 4, height_ratios=(1.15, 1))
    _show_pictures([figure.add_subplot(grid[0, i]) for i in range(2)], pictures, group)
    for place, known, iteration in ((2, first, 0), (3, last, run.last)):
        axis = figure.add_subplot(grid[0, place])
        _show_scores(axis, run.scores(iteration)[0][group], known, group)
    _show_selection(figure.add_subplot(grid[1, :2]), run)
    _show_curve(figure.add_subplot(grid[1, 2:]), run)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def example(first: Decisions, last: Decisions) -> int:
    """The group to show: matched wrong at first and right in the end, with the largest margin."""
    assert first.right is not None
    assert last.right is not None
    became_right = ~first.right & last.right
    shown = became_right if became_right.any() else last.right
    return int(np.argmax(np.where(shown, last.confidence, -np.inf)))


def _show_pictures(axes: list[Any], pictures: RunPictures, group: int) -> None:
    known, files = pictures.groups[group], pictures.thumbnails()
    for number, axis in enumerate(axes):
        axis.imshow(np.asarray(Image.open(io.BytesIO(files[known.images[number]]))))
        text = pictures.captions[known.captions[number]] or ""
        caption = "\n".join(textwrap.wrap(text, _LETTERS))
        axis.set_title(f"image {'AB'[number]}", fontsize="medium")
        axis.set_xlabel(f"caption {number + 1}:\n{caption}", fontsize="medium")
        axis.set_xticks([])
        axis.set_yticks([])


def _show_scores(
    axis: Any, scores: Float[np.ndarray, "image text"], known: Decisions, group: int
) -> None:
    """Scores of every image with every caption; the matching is framed."""
    import matplotlib.patches as patches

    matching = known.induced[0].matching[group]
    right = bool(known.right[group]) if known.right is not None else False
    low, high = float(scores.min()), float(scores.max())
    axis.imshow(scores, cmap="Blues", vmin=low - 0.3 * (high - low), vmax=high + 0.7 * (high - low))
    for (row, column), value in np.ndenumerate(scores):
        axis.text(column, row, f"{value:.2f}", ha="center", va="center")
    for row, column in enumerate(matching):
        colour = _GREEN if right else _ORANGE
        frame = patches.Rectangle(
            (column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=colour, linewidth=3
        )
        axis.add_patch(frame)
    axis.set_xticks([0, 1], ["caption 1", "caption 2"])
    axis.set_yticks([0, 1], ["A", "B"])
    name = "before" if known.iteration == 0 else f"after {known.iteration} iterations"
    axis.set_title(
        f"scores {name}\nbest matching: {'right' if right else 'wrong'}, "
        f"margin {known.confidence[group]:.2f}",
        fontsize="medium",
    )


def selection(run: SeedRun) -> tuple[Bool[np.ndarray, "t group"], Bool[np.ndarray, "t group"]]:
    """What was trained on in every iteration, and whether its matching was right."""
    rows = run.ledger.iterations
    chosen = np.array([[bool(unit["selected"]) for unit in row] for row in rows])
    right = np.array([[bool(unit["right"]) for unit in row] for row in rows])
    return chosen, right


def _show_selection(axis: Any, run: SeedRun) -> None:
    """One column per group, one row per iteration: which pseudo-labels were trained on."""
    from matplotlib.colors import ListedColormap

    chosen, right = selection(run)
    order = np.lexsort((*right[::-1], -chosen.sum(axis=0)))
    fate = np.where(chosen, np.where(right, 2, 1), 0)[:, order]
    colours = ListedColormap([_PALE, _ORANGE, _GREEN])
    axis.imshow(fate, cmap=colours, vmin=0, vmax=2, aspect="auto", interpolation="nearest")
    taus = [row["tau"] for row in run.rows[1:]]
    axis.set_yticks(range(len(taus)), [f"{i}: tau {tau:.2f}" for i, tau in enumerate(taus, 1)])
    axis.set_xticks([])
    axis.set_xlabel(f"{chosen.shape[1]} groups")
    axis.set_title(
        "pseudo-labels of each iteration: right (green), wrong (orange), not selected (grey)",
        fontsize="medium",
    )


def _show_curve(axis: Any, run: SeedRun) -> None:
    """GroupScore and GroupMatch of the model after every iteration, with their chance levels."""
    for metric, label, colour, level in (
        ("group_match", "GroupMatch", _BLUE, chance.group_match(2, 2)),
        ("group_score", "GroupScore", _ORANGE, chance.group_score(2, 2)),
    ):
        values = [run.percent(metric, t) for t in range(len(run.rows))]
        axis.plot(range(len(values)), values, marker="o", color=colour, label=label)
        axis.axhline(100 * level, color=colour, linestyle=":", linewidth=1)
    axis.set_xticks(range(len(run.rows)))
    axis.set_ylim(0, 100)
    axis.set_xlabel("iteration (dotted: chance)")
    axis.set_ylabel("%")
    axis.grid(alpha=0.3)
    axis.legend(loc="center right")
    axis.set_title("no labels used; they only measure", fontsize="medium")
