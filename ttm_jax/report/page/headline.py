"""What a reader wants to know first: what changed, what it is worth, what is uncertain."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ttm_jax.data.paper import PaperResult
from ttm_jax.matching.mean_over_seeds import population_std
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.matching.rate_interval import error_reduction
from ttm_jax.report.decisions import decisions
from ttm_jax.report.page.names import unit_titles
from ttm_jax.report.run_data import Experiment, SeedRun
from ttm_jax.report.tables.from_runs import mean_and_std
from ttm_jax.report.tables.paper_numbers import units

_UNCERTAIN = 3  # groups that the page names as the least certain
ARROW = "→"


@dataclass(frozen=True)
class Tile:
    """A number with its name above and notes below; `show` and `order` set the gallery."""

    name: str
    value: str
    notes: tuple[str, ...] = ()
    link: str = ""
    show: str = "all"
    order: str = "changed"


def changed(run: SeedRun) -> np.ndarray:
    """bool [unit]: whether the matching of the last model is another one than that of the first."""
    old, new = (decisions(run, iteration).induced for iteration in (0, run.last))
    differs = [a.matching != b.matching for a, b in zip(old, new, strict=True)]
    return np.concatenate([part[0] if run.is_global else part.any(axis=1) for part in differs])


def changed_text(experiment: Experiment) -> str:
    """ "8 of 60"; of several seeds the smallest and the largest number."""
    counts = [int(changed(run).sum()) for run in experiment.runs]
    low, high = min(counts), max(counts)
    return f"{low if low == high else f'{low} to {high}'} of {units(experiment)}"


def lead(experiment: Experiment) -> list[str]:
    """The answer in one line; every part is one statement."""
    if not max(run.last for run in experiment.runs):
        return ["Nothing is trained yet"]
    what = "pairs" if experiment.first.is_global else "matchings"
    parts = [f"{changed_text(experiment)} {what} changed"]
    if experiment.has_truth:
        main = experiment.first.main_metric
        parts.append(f"{METRICS[main].label} {before_and_after(experiment, main)}")
    else:
        (name, confidence), *_ = least_certain(experiment.first)
        kind = "similarity" if experiment.first.is_global else "margin"
        parts.append(f"least certain is {name} with a {kind} of {confidence}")
    return parts


def least_certain(run: SeedRun) -> list[tuple[str, str]]:
    """The units with the smallest confidence of the last model, least first, with the number."""
    confidence = decisions(run, run.last).confidence
    names, what = unit_titles(run), "" if run.is_global else "group "
    order = np.argsort(confidence, kind="stable")[:_UNCERTAIN]
    return [(f"{what}{names[at]}", f"{confidence[at]:.2f}") for at in order]


def before_and_after(experiment: Experiment, metric: str) -> str:
    """ "75.00 → 81.67", over the seeds with its deviation."""
    before = experiment.first.percent(metric, 0)
    after = [run.percent(metric) or 0.0 for run in experiment.runs]
    return f"{before:.2f} {ARROW} {mean_and_std(fmean(after), population_std(after))}"


def lead_of_many(experiments: Sequence[Experiment]) -> list[str]:
    """Over all experiments: how often the headline rose, and by how much on average."""
    gains = [_gain(e, e.first.main_metric) for e in experiments if e.has_truth]
    if not gains:
        total = sum(fmean(int(changed(r).sum()) for r in e.runs) for e in experiments)
        return [f"{total:.0f} of {sum(map(units, experiments))} matchings changed"]
    rose, fell = sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    parts = [f"The score rose in {rose} of {len(gains)} experiments"]
    parts += [f"it fell in {fell}"] if fell else []
    return [*parts, f"mean gain {fmean(gains):+.2f} points"]


def _gain(experiment: Experiment, metric: str) -> float:
    before = experiment.first.percent(metric, 0) or 0.0
    return fmean((run.percent(metric) or 0.0) - before for run in experiment.runs)


def tiles(experiment: Experiment, paper: PaperResult | None) -> list[Tile]:
    """The numbers below the answer; with truth the scores, without it what is least certain."""
    found = [_changed_tile(experiment)]
    if experiment.has_truth:
        names = [experiment.first.main_metric, "group_match", "group_score"]
        measured = experiment.first.rows[0]["metrics"]
        if all(
            shape.startswith("1x") for shape in experiment.first.shapes
        ):  # there GroupScore is GroupMatch
            names.remove("group_score")
        found += [_metric_tile(experiment, n) for n in dict.fromkeys(names) if n in measured]
        found += [] if paper is None else [_paper_tile(experiment, paper)]
    else:
        found.append(_uncertain_tile(experiment))
    return [*found, *_selected_tile(experiment)]


def _changed_tile(experiment: Experiment) -> Tile:
    what = "pairs changed" if experiment.first.is_global else "matchings changed"
    notes = _fates(experiment) if experiment.has_truth else ()
    some = any(changed(run).any() for run in experiment.runs)
    link = "show them" if some else ""
    return Tile(what, changed_text(experiment), notes, link, "changed")


def _fates(experiment: Experiment) -> tuple[str, ...]:
    gained, lost = [], []
    for run in experiment.runs:
        before, after = decisions(run, 0).right, decisions(run, run.last).right
        assert before is not None  # has_truth
        assert after is not None
        gained.append(int((after & ~before).sum()))
        lost.append(int((before & ~after).sum()))
    many = len(gained) > 1
    said = (f"{fmean(counts):.2f}" if many else f"{counts[0]}" for counts in (gained, lost))
    right, wrong = said
    return (f"{right} became right, {wrong} became wrong" + (" (means)" if many else ""),)


def _metric_tile(experiment: Experiment, metric: str) -> Tile:
    gain = _gain(experiment, metric)
    rate = experiment.first.rows[0]["metrics"][metric]
    after = [run.percent(metric) or 0.0 for run in experiment.runs]
    deviation = population_std(after)
    notes = [] if deviation is None else [f"± {deviation:.2f} over {len(after)} seeds"]
    notes.append(f"{gain:+.2f} points, chance {rate['chance']:.2f}")
    if gain > 0:
        notes.append(f"{error_reduction(rate['percent'], rate['percent'] + gain):.2f} % less wrong")
    value = f"{rate['percent']:.2f} {ARROW} {fmean(after):.2f}"
    return Tile(METRICS[metric].label, value, tuple(notes))


def _paper_tile(experiment: Experiment, paper: PaperResult) -> Tile:
    name = METRICS[experiment.first.main_metric].label
    old = paper.simple_match if paper.simple_match is not None else paper.raw
    before = "-" if old is None else f"{old:.2f}"
    if paper.ttm is None:
        return Tile(f"{name} in the paper", before, ("its TTM was run with other settings",))
    ours = fmean(run.percent(experiment.first.main_metric) or 0.0 for run in experiment.runs)
    after = mean_and_std(paper.ttm, paper.ttm_std)
    notes = (f"here {ours - paper.ttm:+.2f} from that",)
    return Tile(f"{name} in the paper", f"{before} {ARROW} {after}", notes)


def _uncertain_tile(experiment: Experiment) -> Tile:
    run = experiment.first
    found = least_certain(run)
    notes = [f"{name}: {confidence}" for name, confidence in found]
    tied = int((~decisions(run, run.last).unique).sum())
    notes += [f"{tied} tied: another matching is as good"] if tied else []
    name = f"smallest {'similarity' if run.is_global else 'margin'}"
    return Tile(name, found[0][1], tuple(notes), "least certain first", order="low")


def _selected_tile(experiment: Experiment) -> list[Tile]:
    rows = experiment.first.rows[1:]
    if not rows:
        return []
    first, last = rows[0]["selected"], rows[-1]["selected"]
    notes = (f"of {rows[0]['units']}; tau {rows[0]['tau']:.2f} {ARROW} {rows[-1]['tau']:.2f}",)
    return [Tile("selected for training", f"{first} {ARROW} {last}", notes)]
