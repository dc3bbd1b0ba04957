"""What the check-up compares: the counts of the paper, by model and benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass

from configs.experiments import EXPERIMENTS
from ttm_jax.data.benchmarks.catalogue import find_benchmark
from ttm_jax.data.paper import PaperResult, paper_results
from ttm_jax.data.paper.models import MODELS
from ttm_jax.report.checkup.measure import Measure
from ttm_jax.report.checkup.row import Published


@dataclass(frozen=True)
class Subject:
    """A model on a benchmark, which is scored once, and the counts that this decides."""

    dataset: str
    model: str
    published: tuple[Published, ...]

    @property
    def needs_whole(self) -> bool:
        """Whether all images are scored against all captions."""
        return any(published.measure == "global_match" for published in self.published)


def find_subjects(tables: Sequence[str], experiments: Sequence[str] = ()) -> list[Subject]:
    """Every count in these tables, once, in the order of the models; perhaps of some rows only.

    A row that a table repeats (the table of fewer iterations has the raw numbers of the main table
    again) counts where it comes first.
    """
    rows: dict[tuple[str, str, str], PaperResult] = {}
    for row in paper_results():
        if row.raw_count is not None and row.table in tables and _is_of(row, experiments):
            rows.setdefault((row.dataset, row.model, row.matching), row)
    found: dict[tuple[str, str], list[Published]] = {}
    for row in rows.values():
        found.setdefault((row.model, row.dataset), []).extend(_published(row))
    models, datasets = list(MODELS), list(dict.fromkeys(row.dataset for row in paper_results()))
    order = sorted(found, key=lambda key: (models.index(key[0]), datasets.index(key[1])))
    return [Subject(dataset, model, tuple(found[model, dataset])) for model, dataset in order]


def _is_of(row: PaperResult, experiments: Sequence[str]) -> bool:
    """Whether one of these experiments (all, if none are named) has this row."""
    return not experiments or any(
        experiment.name in experiments
        and (arm.table, arm.preset.dataset, arm.preset.model) == (row.table, row.dataset, row.model)
        for experiment in EXPERIMENTS
        for arm in experiment.arms
    )


def _published(row: PaperResult) -> list[Published]:
    groups = find_benchmark(row.dataset).groups
    found = []
    if row.raw_count is not None:
        found.append(Published(row.table, "raw", "raw", row.raw_count, groups))
    if row.simple_match_count is not None:
        measure: Measure = "global_match" if row.matching == "global" else "simple_match"
        count, of = row.simple_match_count, row.groups
        found.append(Published(row.table, "simple_match", measure, count, of))
    return found
