"""One HTML file about runs: tables, charts and a gallery; it needs no network and no server.

Nothing from the data becomes markup: the templates escape every value (`markup.py`), and the
gallery's script sets text as text. A content security policy allows this page's own style and
script and nothing else.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ttm_jax.engine.collapse_alarm import advice
from ttm_jax.files import write_text
from ttm_jax.plain_text import one_line
from ttm_jax.report.page.charts import charts, comparison_chart
from ttm_jax.report.page.gallery import gallery, picture_pools
from ttm_jax.report.page.headline import lead, lead_of_many, tiles
from ttm_jax.report.page.markup import asset, digest, render
from ttm_jax.report.page.names import folder_names, page_title, title_of
from ttm_jax.report.page.settings import provenance, used_settings
from ttm_jax.report.page.tables import (
    AGREEMENT,
    agreement_rows,
    groups_text,
    iteration_tables,
    overview,
    tag_rows,
)
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables.paper_numbers import paper_result
from ttm_jax.runs.pictures import THUMBNAILS

MOST_IN_ONE_CHART = 6
_STYLES = ("page_style.css", "gallery_style.css")
_SCRIPTS = ("card_script.js", "gallery_script.js", "page_script.js")


def write_page(
    experiments: Sequence[Experiment],
    path: Path,
    *,
    models: Mapping[str, str] | None = None,
    pictures: bool = True,
    title: str | None = None,
) -> None:
    """Write the report. `models` maps sources of models to the paper's names for them.

    Without a title the page is called after its data and model.
    """
    write_text(path, page(experiments, models=models or {}, pictures=pictures, title=title))


def page(
    experiments: Sequence[Experiment],
    *,
    models: Mapping[str, str],
    pictures: bool = True,
    title: str | None = None,
) -> str:
    """The text of the report; see `write_page`."""
    style, script = (asset(*names) for names in (_STYLES, _SCRIPTS))
    names = folder_names(experiments)
    known = [n for n, experiment in enumerate(experiments) if experiment.has_truth]
    comparable = 1 < len(known) <= MOST_IN_ONE_CHART
    text = render(
        "page.html",
        title=one_line(title or page_title(experiments)),
        style=style,
        style_digest=digest(style),
        script=script,
        script_digest=digest(script),
        answer=_answer(experiments, models),
        overview=len(experiments) > 1,
        table_of_results=overview(experiments, models),
        comparison=comparison_chart([experiments[n] for n in known], [names[n] for n in known])
        if comparable
        else None,
        sections=[_section(n, names[n], e, models) for n, e in enumerate(experiments)],
        gallery=_gallery(experiments, names, pictures),
    )
    return f"{text.strip()}\n"


def _answer(experiments: Sequence[Experiment], models: Mapping[str, str]) -> dict[str, Any]:
    """What stands at the top of the page."""
    notes = [
        one_line(note) for e in experiments for note in (*e.notes, *_no_pictures(e), *_alarms(e))
    ]
    if len(experiments) > 1:
        runs = sum(len(experiment.runs) for experiment in experiments)
        about = f"{len(experiments)} experiments, {runs} runs. "
        about += "Select a heading to sort by it, a name to see its charts."
        return {"lead": lead_of_many(experiments), "about": about, "unfinished": [], "tiles": [],
                "notes": notes}  # fmt: skip
    (experiment,) = experiments
    seeds = ", ".join(map(str, experiment.seeds))
    about = f"{groups_text(experiment)}, seed{'s' if len(experiment.runs) > 1 else ''} {seeds}"
    if not experiment.has_truth:
        about += "; no labels were given, so nothing is scored"
    return {
        "lead": lead(experiment),
        "about": about,
        "unfinished": _unfinished(experiment),
        "tiles": tiles(experiment, paper_result(experiment, models)),
        "notes": notes,
    }


def _unfinished(experiment: Experiment) -> list[str]:
    """One text, or none if every seed has finished."""
    going = [run for run in experiment.runs if not run.finished]
    parts = [f"seed {run.seed} is at {run.last} of {run.config['iterations']}" for run in going]
    return ["; ".join(parts)] if parts else []


def _alarms(experiment: Experiment) -> list[str]:
    """The first alarm of each seed."""
    found = []
    for run in experiment.runs:
        row = next((row for row in run.rows if row.get("alarm")), None)
        if row is not None:
            found.append(f"seed {run.seed}: {advice(row, run.path)}")
    return found


def _no_pictures(experiment: Experiment) -> list[str]:
    pictures = experiment.pictures
    if pictures is None or pictures.has_thumbnails:
        return []
    return [f"{pictures.folder / THUMBNAILS} does not exist: the gallery has no pictures of it"]


def _section(
    number: int, folder: str, experiment: Experiment, models: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "number": number,
        "title": title_of(experiment),
        "folder": folder,
        "lead": lead(experiment),
        "seeds": experiment.seeds,
        "unfinished": _unfinished(experiment),
        "charts": charts(experiment, paper_result(experiment, models)),
        "tags": tag_rows(experiment),
        "agreement": {"headings": AGREEMENT, "rows": agreement_rows(experiment)},
        "estimated": any(row.get("estimate") for row in experiment.first.rows),
        "iterations": iteration_tables(experiment),
        "settings": used_settings(experiment),
        "provenance": provenance(experiment),
    }


def _gallery(
    experiments: Sequence[Experiment], names: Sequence[str], with_pictures: bool
) -> dict[str, Any]:
    pools, which = picture_pools(experiments) if with_pictures else ([], [None] * len(experiments))
    galleries = [gallery(experiment) for experiment in experiments]
    return {
        "runs": [
            {"value": f"{n}-{m}", "name": f"{names[n]}, seed {run.seed}"}
            for n, experiment in enumerate(experiments)
            for m, run in enumerate(experiment.runs)
        ],
        "of_images": all(experiment.first.is_global for experiment in experiments),
        "any_truth": any(experiment.has_truth for experiment in experiments),
        "left_out": sum(content["leftOut"] for content in galleries),
        "data": [
            ("gallery-index", [{"pool": pool} for pool in which]),
            *((f"gallery-{n}", content) for n, content in enumerate(galleries)),
            *((f"pool-{n}", pool) for n, pool in enumerate(pools)),
        ],
    }
