"""Which runs go into which panel: by the names of the paper's experiments, not by their order."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from ttm_jax.report.figures.sources import Measured
from ttm_jax.report.run_data import Experiment


def is_plain(experiment: Experiment) -> bool:
    """Run as the paper runs it: groups, everything trained, a decaying threshold, no labels."""
    c = experiment.config
    falling = c["schedule"] in ("linear", "cosine")
    return c["matching"] == "group" and c["train"] == "all" and falling and not c["oracle"]


def is_ablation(experiment: Experiment) -> bool:
    """A run of one of the paper's ablations, which have figures of their own."""
    return str(experiment.info.get("experiment", "")).startswith("ablation_")


def stands_for(experiment: Experiment) -> tuple[str, str]:
    """Benchmark and model of the paper, also where a small one takes their place."""
    dataset = experiment.info.get("dataset", experiment.dataset)
    return str(dataset), str(experiment.info.get("model", experiment.model))


def choose_run(
    experiments: Sequence[Experiment], dataset: str, model: str, *, one_image: bool
) -> Experiment | None:
    """The plain run of this benchmark and model; otherwise any plain one with such groups.

    The paper's own data goes before a small stand-in, and a row of a table before an ablation.
    """
    fits = [e for e in experiments if is_plain(e) and e.shape.startswith("1x") == one_image]

    def rank(experiment: Experiment) -> tuple[bool, ...]:
        return (
            stands_for(experiment) != (dataset, model),
            stands_for(experiment)[0] != dataset,
            not experiment.is_the_papers,
            is_ablation(experiment),
        )

    return min(fits, key=rank, default=None)


def choose_arms(
    experiments: Sequence[Experiment],
    label: Callable[[Experiment], str | None],
    varied: Sequence[str],
    prefer: str,
) -> dict[str, Experiment]:
    """Runs that differ in the `varied` settings only, by their labels; empty if there are no two.

    The experiment called `prefer` goes first, then the paper's own data, then the most runs.
    """
    every: dict[str, list[tuple[str, Experiment]]] = {}
    for experiment in experiments:
        name = label(experiment)
        if name is not None:
            every.setdefault(_all_but(experiment, varied), []).append((name, experiment))
    found = [_distinct(members, prefer) for members in every.values()]

    def rank(arms: dict[str, Experiment]) -> tuple[bool, bool, int]:
        own = sum(e.info.get("experiment") == prefer for e in arms.values()) > 1
        papers = all(e.is_the_papers for e in arms.values())
        return own, papers, len(arms)

    return max((arms for arms in found if len(arms) > 1), key=rank, default={})


def choose_metrics(
    measured: Sequence[Measured], experiments: Sequence[Experiment]
) -> tuple[str, dict[str, dict[str, Any]]]:
    """A dataset (Winoground if it is there), and the metrics of each untrained model on it.

    From `ablation_metrics`, which measures all of them; otherwise from runs, in which a metric may
    be missing: global ones are measured by global runs only.
    """
    scored = [m for m in measured if m.experiment == "ablation_metrics"]
    if scored:
        best = min(scored, key=lambda m: (m.stands_for != "winoground", m.small))
        members = [m for m in scored if (m.dataset, m.small) == (best.dataset, best.small)]
        return best.dataset, {m.model: dict(m.metrics) for m in members}
    grouped = [e for e in experiments if not e.first.is_global and not e.shape.startswith("1x")]
    if not grouped:
        return "", {}
    start = min(grouped, key=lambda e: (stands_for(e)[0] != "winoground", not e.is_the_papers))
    values: dict[str, dict[str, Any]] = {}
    for experiment in experiments:
        if experiment.dataset == start.dataset:
            values.setdefault(experiment.model, {}).update(experiment.first.rows[0]["metrics"])
    return start.dataset, values


def _all_but(experiment: Experiment, varied: Sequence[str]) -> str:
    settings = {name: v for name, v in experiment.config.items() if name not in varied}
    return json.dumps([experiment.dataset, experiment.model, settings], sort_keys=True)


def _distinct(members: Sequence[tuple[str, Experiment]], prefer: str) -> dict[str, Experiment]:
    own = [m for m in members if m[1].info.get("experiment") == prefer]
    chosen = own if len({name for name, _ in own}) > 1 else members
    arms: dict[str, Experiment] = {}
    for name, experiment in chosen:
        arms.setdefault(name, experiment)
    return arms
