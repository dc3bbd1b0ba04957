"""`reproduce --check`: the published counts, without training, and the reason where one differs."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments._check_rows import Subject, find_subjects
from experiments._flags import Flags
from ttm_jax.data.benchmarks.catalogue import find_benchmark
from ttm_jax.data.paper.models import MODELS
from ttm_jax.errors import InputError
from ttm_jax.files import write_json, write_text
from ttm_jax.report.checkup.flips import Flip, find_flips
from ttm_jax.report.checkup.measure import Measure, right
from ttm_jax.report.checkup.page import as_json, markdown, reason, totals
from ttm_jax.report.checkup.row import Row
from ttm_jax.report.checkup.search import Attempt, Choice, Search, explain

if TYPE_CHECKING:
    from experiments._check_choices import Settings
    from experiments._check_scores import Scorer
    from ttm_jax.runs.console import Console

# Flags that decide which counts are compared, where things are, and how scores are computed.
_TAKEN = {
    "table", "rows", "check", "model", "data_dir", "fetch", "run_dir", "resume", "quiet", "dtype",
    "precision", "placement", "exif",
}  # fmt: skip
EQUAL, DIFFERENT, MISSING = 0, 1, 2  # exit codes


def run_check(flags: Flags, tables: Sequence[str], experiments: Sequence[str]) -> int:
    """Compare every count of these tables; returns the exit code."""
    refuse_other_flags(flags)
    subjects = find_subjects(tables, experiments)
    if not subjects:
        raise InputError("--check: the paper has no counts for these rows; choose other ones")
    models = list(dict.fromkeys(subject.model for subject in subjects))
    if flags.model is not None and len(models) > 1:
        raise InputError(
            f"--model {flags.model} is one model, and the rows have {', '.join(models)}; choose "
            "rows of one model with --table and --rows"
        )
    root = flags.run_dir or Path("runs")
    from ttm_jax.runs.console import Console

    with Console("quiet" if flags.quiet else "auto") as console:
        rows = check_subjects(subjects, flags, root, console)
    print(markdown(rows))
    print(f"also in {root / 'check.md'} and {root / 'check.json'}")
    found = totals(rows)
    if found["off"]:
        return DIFFERENT
    return MISSING if found["not_scored"] else EQUAL


def refuse_other_flags(flags: Flags) -> None:
    """One line for a flag that a check-up cannot follow."""
    if flags.small:
        raise InputError(
            "--check --small: the paper has no counts for the small models; leave out one of them"
        )
    for field in fields(flags):
        if field.name not in _TAKEN and getattr(flags, field.name) != field.default:
            name = field.name.replace("_", "-")
            raise InputError(
                f"--check scores whole benchmarks and trains nothing; leave out --{name}"
            )


def check_subjects(
    subjects: Sequence[Subject], flags: Flags, root: Path, console: "Console"
) -> list[Row]:
    """A row for each; the page is written after every one. One model is in memory at a time."""
    from ttm_jax.hosts.this_host import is_first

    rows: list[Row] = []
    models: dict[str, Any] = {}
    for number, subject in enumerate(subjects, 1):
        source = flags.model or MODELS[subject.model]
        if source not in models:
            models = {source: load_or_error(source, flags)}
        row = check_subject(subject, models[source], flags, root, console)
        rows.append(row)
        console.say(f"[{number}/{len(subjects)}] {row.dataset}, {row.model}: {_said(row)}")
        if is_first():
            write_text(root / "check.md", markdown(rows))
            write_json(root / "check.json", as_json(rows))
    return rows


def load_or_error(source: str, flags: Flags) -> Any:
    """The model, or the error that says what is missing."""
    from ttm_jax.load import load_model

    try:
        return load_model(source, offline=None if flags.fetch else True)
    except InputError as error:
        return error if flags.fetch else InputError(f"{error}, and without --no-fetch")


def check_subject(
    subject: Subject, model: Any, flags: Flags, root: Path, console: "Console"
) -> Row:
    """Score once, compare, and look for the reason if a count differs."""
    from experiments._check_data import load_layouts
    from experiments._check_scores import Scorer, base_settings

    usual = base_settings(flags)
    row = Row(subject.dataset, subject.model, subject.published)
    if isinstance(model, InputError):
        missing = [f"model: {model}"]
        try:  # say at once if the data is missing too
            load_layouts(subject.dataset, replace(flags, fetch=False), usual, needs_whole=False)
        except InputError as error:
            missing.append(f"data: {error}")
        return replace(row, missing=tuple(missing))
    scorer = Scorer(subject, model, flags, root / "check", console.say)
    try:
        here = counts_of(scorer, usual, subject)
    except InputError as error:
        return replace(row, missing=(f"data: {error}",))
    row = replace(
        row, here=here, notes=tuple(dict.fromkeys(scorer.notes)), identity=scorer.identity
    )
    if not row.off:
        return row
    console.say(f"{row.dataset}, {row.model}: {_said(row)}; looking for the reason")
    search, flips = find_reason(row, scorer, usual)
    return replace(row, search=search, flips=flips)


def find_reason(
    row: Row, scorer: "Scorer", usual: "Settings"
) -> tuple[Search, dict[str, tuple[Flip, ...]]]:
    """Try the choices that are known to move numbers; the groups that flip with those that do."""
    import jax

    from experiments._check_choices import find_choices

    on_cpu = jax.default_backend() == "cpu"
    choices = find_choices(scorer.model, find_benchmark(row.dataset), usual, on_cpu)
    published: dict[str, int] = {number.measure: number.count for number in row.published}
    search = explain(published, row.here, choices, lambda chosen: attempt(scorer, usual, chosen))
    off = tuple(dict.fromkeys(number.measure for number in row.off))
    flips = {}
    for found in search.found:
        settings = usual.with_choices(*found.choices)
        there = scorer.ways(settings, found.name)
        flips[found.name] = tuple(
            find_flips(
                scorer.ways(usual).scored(usual),
                there.scored(settings),
                off,
                there.ids(settings),
            )
        )
    return search, flips


def attempt(scorer: "Scorer", usual: "Settings", choices: tuple[Choice, ...]) -> Attempt:
    """The counts with these choices made."""
    from experiments._check_scores import same_scores

    settings = usual.with_choices(*choices)
    name = " + ".join(choice.name for choice in choices)
    try:
        there = scorer.ways(settings, name)
        counts = counts_of(scorer, settings, scorer.subject)
    except InputError as error:
        return Attempt(choices, None, changed=False, note=f"cannot be tried: {error}")
    here = scorer.ways(usual)
    if any(choice.rescores for choice in choices):
        if same_scores(here, there):
            return Attempt(choices, counts, changed=False, note="changes no score")
        return Attempt(choices, counts)
    changed = any(
        (right(here.scored(usual), measure) != right(there.scored(settings), measure)).any()
        for measure in _measures(scorer.subject)
    )
    return Attempt(choices, counts, changed, "" if changed else "changes no group")


def counts_of(scorer: "Scorer", settings: "Settings", subject: Subject) -> dict[str, int]:
    """How many units are right, by measure."""
    scored = scorer.ways(settings).scored(settings)
    return {
        measure: int(np.count_nonzero(right(scored, measure))) for measure in _measures(subject)
    }


def _measures(subject: Subject) -> list[Measure]:
    return list(dict.fromkeys(published.measure for published in subject.published))


def _said(row: Row) -> str:
    """One line for the log."""
    if row.missing:
        return "not scored; the end of the page says what is missing"
    verdicts = ", ".join(f"{p.number} {p.verdict(row.here[p.measure])}" for p in row.published)
    return f"{verdicts}; {reason(row)}" if row.search is not None else verdicts
