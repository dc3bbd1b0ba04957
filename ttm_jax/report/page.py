"""One HTML file about runs: tables, charts and a gallery; it needs no network and no server.

Nothing from the data becomes markup: text is escaped here, and the gallery's script sets it as
text. A content security policy allows this page's own style and script and nothing else.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ttm_jax.files import write_text
from ttm_jax.report.charts import charts, comparison_chart
from ttm_jax.report.gallery import gallery, picture_pools
from ttm_jax.report.page_tables import environment_table, iteration_tables, summary_table, tag_table
from ttm_jax.report.paper_numbers import paper_result
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables import summary_rows

MOST_IN_ONE_CHART = 6


def write_page(
    experiments: Sequence[Experiment],
    path: Path,
    *,
    models: Mapping[str, str] | None = None,
    pictures: bool = True,
    title: str = "Test-Time Matching",
) -> None:
    """Write the report. `models` maps sources of models to the paper's names for them."""
    write_text(path, page(experiments, models=models or {}, pictures=pictures, title=title))


def page(
    experiments: Sequence[Experiment],
    *,
    models: Mapping[str, str],
    pictures: bool = True,
    title: str = "Test-Time Matching",
) -> str:
    style, script = _asset("page_style.css"), _asset("page_script.js")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'"
    )
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{escape(title)}</title><link rel="icon" href="data:,">',
        f"<style>{style}</style></head><body>",
        '<a class="skip" href="#gallery">to the gallery</a>',
        f"<header><h1>{escape(title)}</h1>{_nav(experiments)}</header><main>",
        _summary(experiments, models),
        *(_section(n, experiment, models) for n, experiment in enumerate(experiments)),
        _gallery(experiments, pictures),
        f"</main><script>{script}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _nav(experiments: Sequence[Experiment]) -> str:
    links = [("summary", "Summary")]
    links += [(f"run-{n}", experiment.name) for n, experiment in enumerate(experiments)]
    links += [("gallery", "Gallery")]
    items = "".join(f'<li><a href="#{where}">{escape(name)}</a></li>' for where, name in links)
    return f'<nav aria-label="sections"><ul>{items}</ul></nav>'


def _summary(experiments: Sequence[Experiment], models: Mapping[str, str]) -> str:
    rows = summary_rows(experiments, models)
    parts = ['<section id="summary"><h2>Summary</h2>', summary_table(rows)]
    unknown = [experiment.name for experiment in experiments if not experiment.has_truth]
    if unknown:
        names = escape(", ".join(unknown))
        parts.append(f"<p>The truth is unknown, so nothing is scored: {names}.</p>")
    known = [experiment for experiment in experiments if experiment.has_truth]
    if 1 < len(known) <= MOST_IN_ONE_CHART:
        parts.append(f'<div class="charts">{comparison_chart(known)}</div>')
    return "".join([*parts, "</section>"])


def _section(number: int, experiment: Experiment, models: Mapping[str, str]) -> str:
    drawn = "".join(charts(experiment, paper_result(experiment, models)))
    unit = "pairs" if experiment.first.is_global else "groups"
    seeds = ", ".join(map(str, experiment.seeds))
    one_seed = experiment.first.seed
    return (
        f'<section id="run-{number}"><h2>{escape(experiment.name)}</h2>'
        f"<p>{escape(experiment.model)} on {escape(experiment.dataset)}, "
        f"{_groups_text(experiment)}; {unit} are selected; seeds {escape(seeds)}."
        f"{_progress_text(experiment)} "
        '<span class="soft">Bold lines are means over the seeds, thin ones single seeds. Charts '
        f"about margins are of seed {one_seed}.</span></p>"
        f'<div class="charts">{drawn}</div>'
        f"{tag_table(experiment)}{iteration_tables(experiment)}"
        f"{environment_table(experiment)}</section>"
    )


def _groups_text(experiment: Experiment) -> str:
    return ", ".join(
        f"one matrix of {shape}" if experiment.first.is_global else f"{count} groups of {shape}"
        for shape, count in experiment.first.shapes.items()
    )


def _progress_text(experiment: Experiment) -> str:
    going = [run for run in experiment.runs if not run.finished]
    said = [f"seed {run.seed} is at {run.last} of {run.config['iterations']}" for run in going]
    return f" <strong>Not finished: {escape('; '.join(said))}.</strong>" if said else ""


def _gallery(experiments: Sequence[Experiment], with_pictures: bool) -> str:
    pools, which = picture_pools(experiments) if with_pictures else ([], [None] * len(experiments))
    index = [
        {"name": experiment.name, "pool": pool}
        for experiment, pool in zip(experiments, which, strict=True)
    ]
    galleries = [gallery(experiment) for experiment in experiments]
    runs = "".join(
        f'<option value="{n}-{m}">{escape(experiment.name)}, seed {run.seed}</option>'
        for n, experiment in enumerate(experiments)
        for m, run in enumerate(experiment.runs)
    )
    left_out = sum(content["leftOut"] for content in galleries)
    note = f"<p>{left_out} groups are too large to be shown.</p>" if left_out else ""
    data = [_data("gallery-index", index)]
    data += [_data(f"gallery-{n}", content) for n, content in enumerate(galleries)]
    data += [_data(f"pool-{n}", pool) for n, pool in enumerate(pools)]
    template = _asset("page_gallery.html")
    return template.replace("<!--RUNS-->", runs).replace("<!--NOTE-->", note) + "\n".join(data)


def _data(name: str, content: Any) -> str:
    """JSON inside a page: no letter in it may end the element or begin another."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _asset(name: str) -> str:
    return (files("ttm_jax.report") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
