"""From a score file to what the user sees: tables and a figure, or one JSON object."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from ttm_jax.data.score_files.arrays import ScoreFile
from ttm_jax.data.score_files.numpy_format import read_array
from ttm_jax.errors import InputError
from ttm_jax.matching.caption_prior import subtract_decoys, subtract_from_matrix
from ttm_jax.matching.checks import UNMATCHED, as_group_scores, as_score_matrix, diagonal
from ttm_jax.matching.coverage_curve import SHARES, global_coverage, group_coverage, taus_for_shares
from ttm_jax.matching.large.embeddings import Embeddings
from ttm_jax.matching.match import GlobalMatching, GroupMatching
from ttm_jax.matching.metrics import (
    GLOBAL_METRICS,
    GROUP_METRICS,
    GlobalEvaluation,
    GroupEvaluation,
    by_tag,
    evaluate,
    evaluate_global,
)
from ttm_jax.matching.rate_interval import Rate
from ttm_jax.plain_text import one_line
from ttm_jax.report.figures.coverage import draw_coverage
from ttm_jax.report.tables.scores import (
    coverage_table,
    grounding_table,
    matching_summary,
    metric_table,
    simple_match_text,
    tag_table,
)

_TagRates = dict[str, dict[str, Rate]]


def report_groups(
    data: ScoreFile, name: str, truth: str, as_json: bool, figure: Path | None
) -> None:
    """Evaluate groups of one shape and print what was found; `truth` as in `ttm evaluate`."""
    scores = as_group_scores(data.scores)
    true_caption, origin = _truth_of(truth, data.truth, diagonal(scores))
    found = evaluate(scores, true_caption)
    grounding = _grounding(found, scores, data.decoys, true_caption)
    tags = by_tag(found, data.tags) if data.tags and found.has_truth else {}
    if figure is not None:
        points = group_coverage(found.matching, _right(found), _figure_taus(found.matching))
        draw_coverage(points, "groups", f"{name}: groups selected at margin >= tau", figure)
    if as_json:
        answer = _groups_as_json(found, tags)
        if grounding:
            answer["grounding"] = {key: rate.as_json() for key, rate in grounding.items()}
        print(json.dumps(answer, allow_nan=False))
        return
    console = Console()
    _print_title(console, name, f"{found.groups} groups of {_size(found.shape)}", origin)
    _print_groups(console, found, tags)
    if grounding:
        console.print("", grounding_table(grounding), sep="\n")
        gain = grounding["real"].percent - grounding["unrelated"].percent
        console.print(f"Grounded gain: {gain:+.1f} points over unrelated images.")
    elif found.has_truth and found.shape[0] < found.shape[1]:
        console.print(
            "Grounded gain, and the accuracy without the captions' prior: the file has no scores "
            "of images of other groups (array decoys; docs/metrics.md).",
        )
    _name_figure(console, figure)


def report_global(
    data: ScoreFile, name: str, truth: str, as_json: bool, figure: Path | None
) -> None:
    """Evaluate one matrix without groups, or embeddings, and print what was found."""
    embedded = isinstance(data.scores, Embeddings)
    scores = data.scores if embedded else as_score_matrix(data.scores)
    rows, columns = scores.shape
    candidates = data.named and (rows != columns or data.unpaired)
    if truth == "auto" and data.truth is None and candidates:
        truth = "none"  # of `ttm score`: the captions are not listed in the order of the images
    same = np.arange(rows, dtype=np.int32)
    same[columns:] = UNMATCHED
    true_caption, origin = _truth_of(truth, data.truth, same)
    found = evaluate_global(scores, true_caption)
    without_prior = (
        evaluate_global(subtract_from_matrix(scores), true_caption)
        if found.rates and rows > 1 and not embedded
        else None
    )
    if figure is not None:
        points = global_coverage(found.matching, found.right, np.linspace(0, 1, 101).tolist())
        draw_coverage(points, "pairs", f"{name}: the most similar pairs first", figure)
    if as_json:
        answer = _global_as_json(found)
        if without_prior is not None:
            answer["without_prior"] = _json_metrics(without_prior.rates, GLOBAL_METRICS)
        print(json.dumps(answer, allow_nan=False))
        return
    console = Console()
    _print_title(console, name, f"{_size(found.shape)}, no groups", origin)
    if found.rates:
        console.print(metric_table(found.rates, found.shape))
        console.print("Pairs of one assignment are not independent: read the interval as a guide.")
        if without_prior is not None:
            title = "Without the captions' prior (its mean score with other images subtracted)"
            console.print(metric_table(without_prior.rates, found.shape, title))
    else:
        console.print(matching_summary(found.matching))
    points = global_coverage(found.matching, found.right, [1 - share for share in SHARES])
    console.print("", coverage_table(points, "pairs"), sep="\n")
    _name_figure(console, figure)


def _grounding(
    found: GroupEvaluation,
    scores: np.ndarray,
    decoys: np.ndarray | None,
    truth: np.ndarray | None,
) -> dict[str, Rate]:
    """GroupMatch with the real images, with unrelated ones, and without the captions' prior."""
    if decoys is None or truth is None or not found.has_truth:
        return {}
    draws = decoys.shape[1]
    flat = decoys.reshape(-1, *found.shape).astype(np.float64)
    blind = evaluate(flat, np.repeat(np.asarray(truth), draws, axis=0))
    removed = evaluate(subtract_decoys(scores, decoys), truth)
    return {
        "real": found.rates()["group_match"],
        "unrelated": blind.rates()["group_match"],
        "without_prior": removed.rates()["group_match"],
    }


def _print_groups(console: Console, found: GroupEvaluation, tags: _TagRates) -> None:
    if found.has_truth:
        rates = found.rates()
        console.print(metric_table(rates, found.shape))
        summary = simple_match_text(
            rates["group_score"], rates["group_match"], found.matching, found.shape
        )
        console.print("", summary, sep="\n")
    else:
        console.print(matching_summary(found.matching))
    if tags:
        console.print("", tag_table(tags), sep="\n")
    points = group_coverage(found.matching, _right(found), taus_for_shares(found.matching))
    console.print("", coverage_table(points, "groups"), sep="\n")


def _right(found: GroupEvaluation) -> np.ndarray | None:
    return found.metrics["group_match"].right.astype(bool) if found.has_truth else None


def _groups_as_json(found: GroupEvaluation, tags: _TagRates) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "groups": found.groups,
        "shape": list(found.shape),
        "metrics": _json_metrics(found.rates(), GROUP_METRICS),
    }
    if tags:
        answer["tags"] = {tag: _json_metrics(rates, GROUP_METRICS) for tag, rates in tags.items()}
    if not found.has_truth:
        answer |= _json_matching(found.matching)
        answer["margin"] = _finite_or_none(found.matching.margin)
    return answer


def _global_as_json(found: GlobalEvaluation) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "groups": 1,
        "shape": list(found.shape),
        "metrics": _json_metrics(found.rates, GLOBAL_METRICS),
    }
    if not found.rates:
        answer |= _json_matching(found.matching)
        answer["similarity"] = _finite_or_none(found.matching.similarity)
    return answer


def _json_metrics(rates: dict[str, Rate], names: tuple[str, ...]) -> dict[str, Any]:
    """Every metric by name; null if it does not apply to the shape. Nothing without a truth."""
    if not rates:
        return {}
    return {name: rates[name].as_json() if name in rates else None for name in names}


def _json_matching(matching: GroupMatching | GlobalMatching) -> dict[str, Any]:
    return {"matching": matching.matching.tolist(), "unique": matching.unique.tolist()}


def _finite_or_none(values: np.ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _truth_of(
    choice: str, in_file: np.ndarray | None, on_diagonal: np.ndarray
) -> tuple[np.ndarray | None, str]:
    """The truth that the user asked for, and in words where it comes from."""
    if choice == "none":
        return None, "unknown"
    if choice == "auto" and in_file is not None:
        return in_file, "as the file gives it"
    if choice in ("auto", "diagonal"):
        return on_diagonal, "image i has caption i"
    path = Path(choice)
    if path.suffix != ".npy":
        raise InputError(
            f"--truth is {choice!r}; expected auto, diagonal, none, or a .npy file with the "
            "caption index of each image"
        )
    return read_array(path, "truth"), f"from {path.name}"


def _figure_taus(matching: GroupMatching) -> list[float]:
    """From 0 to the margin that one group in a hundred reaches: beyond it there is too little."""
    margins = matching.margin[matching.unique & np.isfinite(matching.margin)]
    top = float(np.quantile(margins, 0.99)) if margins.size else 1.0
    return np.linspace(0, top or 1.0, 201).tolist()


def _size(shape: tuple[int, int]) -> str:
    images, texts = shape
    return f"{images} image{'s' if images > 1 else ''} x {texts} caption{'s' if texts > 1 else ''}"


def _print_title(console: Console, name: str, contents: str, origin: str) -> None:
    console.print()
    console.print(Text.assemble((one_line(name), "bold"), f": {contents}"))
    console.print(Text(f"Truth: {one_line(origin)}. A tie wins nothing.\n"))


def _name_figure(console: Console, figure: Path | None) -> None:
    if figure is not None:
        line = Text(f"\nFigure of coverage and precision over tau: {one_line(str(figure))}")
        console.print(line, soft_wrap=True)  # a path that is cut in two cannot be copied
