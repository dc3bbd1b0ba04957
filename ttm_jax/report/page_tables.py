"""The tables of the HTML page."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from statistics import fmean
from typing import Any

import numpy as np

from ttm_jax.report.charts import TITLES
from ttm_jax.report.decisions import decisions
from ttm_jax.report.paper_numbers import pretty
from ttm_jax.report.run_data import Experiment, SeedRun
from ttm_jax.report.tables import SummaryRow, gain, mean_and_std, number, reduction, signed

_SUMMARY = (
    "run", "chance", "raw", "SimpleMatch", "TTM", "gain", "error reduction",
    "paper: raw", "paper: SimpleMatch", "paper: TTM",
)  # fmt: skip
_NOTE = (
    "Percent. Raw is GroupScore; SimpleMatch is GroupMatch (without groups: the accuracy of the "
    "global assignment) of the model as it came; TTM is that of the adapted model, mean and sample "
    "standard deviation over the seeds; gain is over SimpleMatch, in points and relative. Chance "
    "is that of GroupScore, then of GroupMatch."
)


def summary_table(rows: Sequence[SummaryRow]) -> str:
    if not rows:
        return ""
    with_paper = any(row.paper for row in rows)
    headings = _SUMMARY if with_paper else _SUMMARY[:7]
    body = [_summary_cells(row, with_paper) for row in rows]
    said = _NOTE + (" Below the paper's numbers: here minus there." if with_paper else "")
    return table(headings, body, text_columns=1, stack=True) + f'<p class="soft">{said}</p>'


def _summary_cells(row: SummaryRow, with_paper: bool) -> list[str]:
    r = row.result
    kind = "global" if r.matching == "global" else f"{r.units} groups of {r.shape}"
    unfinished = "" if row.finished else "<small>not finished</small>"
    name = (
        f"<strong>{escape(row.experiment)}</strong>{unfinished}"
        f"<small>{escape(pretty(r.model))} on {escape(pretty(r.variant))}, {escape(kind)}</small>"
    )
    chance = f"{r.chance:.1f}"
    if r.chance_raw is not None and abs(r.chance_raw - r.chance) > 0.05:
        chance = f"{r.chance_raw:.1f} / {chance}"
    ttm = f'<span class="strong">{mean_and_std(r.ttm_mean, r.ttm_std)}</span>'
    if len(r.seeds) > 1:
        values = "<br>".join(
            f"seed {seed}: {value:.2f}" for seed, value in zip(r.seeds, r.ttm_values, strict=True)
        )
        ttm += f"<small>{values}</small>"
    cells = [
        name,
        chance,
        number(r.raw),
        number(r.simple_match),
        ttm,
        gain(row),
        reduction(row),
    ]
    if with_paper:
        cells += [_beside(row, name) for name in ("raw", "simple_match", "ttm")]
    return cells


def _beside(row: SummaryRow, name: str) -> str:
    """The paper's number and, below it, how far ours is from it."""
    value = None if row.paper is None else getattr(row.paper, name)
    if row.paper is None or value is None:
        return "-"
    text = mean_and_std(value, row.paper.ttm_std if name == "ttm" else None)
    return f"{text}<small>{signed(row.difference(name))}</small>"


def iteration_tables(experiment: Experiment) -> str:
    """The numbers behind the curves, a table a seed."""
    parts = []
    for run in experiment.runs:
        metrics = list(run.rows[0]["metrics"])
        names = (TITLES.get(name, name) for name in metrics)
        headings = ("iteration", "tau", "selected", "precision", *names, "loss", "lr", "seconds")
        body = [_iteration_cells(row, metrics) for row in run.rows]
        parts.append(f"<h3>seed {run.seed}</h3>{table(headings, body)}")
    return f"<details><summary>Numbers of every iteration</summary>{''.join(parts)}</details>"


def _iteration_cells(row: dict[str, Any], metrics: list[str]) -> list[str]:
    trained = "units" in row
    precision = row.get("precision")
    return [
        str(row["iteration"]),
        f"{row['tau']:.4g}" if trained else "-",
        f"{row['selected']} / {row['units']}" if trained else "-",
        "-" if precision is None else f"{100 * precision:.2f}",
        *(number(row["metrics"][name]["percent"]) for name in metrics),
        "-" if row.get("loss") is None else f"{row['loss']:.4f}",
        f"{row['lr']:.2e}" if trained else "-",
        f"{row['seconds']:.1f}",
    ]


def tag_table(experiment: Experiment) -> str:
    """GroupMatch before and after of the groups with each tag; nothing without tags or truth."""
    pictures = experiment.pictures
    if pictures is None or not experiment.has_truth or experiment.first.is_global:
        return ""
    groups = pictures.groups
    tags = list(dict.fromkeys(tag for group in groups for tag in group.tags))
    if len(tags) < 2:
        return ""
    before = _right(experiment.first, 0)
    after = [_right(run, run.last) for run in experiment.runs]
    body = []
    for tag in tags:
        among = np.array([tag in group.tags for group in groups])
        old = 100 * float(before[among].mean())
        new = fmean(100 * float(part[among].mean()) for part in after)
        cells = [escape(tag), str(int(among.sum())), number(old), number(new), signed(new - old)]
        body.append(cells)
    headings = ("tag", "groups", "SimpleMatch", "TTM", "gain")
    content = table(headings, body, text_columns=1)
    return f"<details><summary>By tag ({len(tags)})</summary>{content}</details>"


def _right(run: SeedRun, iteration: int) -> np.ndarray:
    right = decisions(run, iteration).right
    assert right is not None  # has_truth
    return right


def environment_table(experiment: Experiment) -> str:
    """Settings and environment: everything that config.json and environment.json say."""
    run = experiment.first
    facts = {
        "folder": ", ".join(str(run.path) for run in experiment.runs),
        **{f"experiment.{key}": value for key, value in experiment.info.items()},
        **_flat(run.identity["model"], "model"),
        **_flat(run.identity["dataset"], "dataset"),
        **_flat(run.config, ""),
        **_flat(run.environment, "environment"),
    }
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(_said(value))}</dd>" for name, value in facts.items()
    )
    return f"<details><summary>Configuration and environment</summary><dl>{items}</dl></details>"


def table(
    headings: Sequence[str],
    body: Iterable[Sequence[str]],
    text_columns: int = 0,
    *,
    stack: bool = False,
) -> str:
    """Cells are HTML already; the first `text_columns` are set flush left.

    A narrow screen scrolls it sideways, or with `stack` shows each row as a list.
    """

    def cell(name: str, place: int, content: str, more: str = "") -> str:
        kind = ' class="text"' if place < text_columns else ""
        content = f"<div>{content}</div>" if stack else content
        return f"<{name}{kind}{more}>{content}</{name}>"

    labels = [f' data-label="{escape(h)}"' if stack else "" for h in headings]
    head = "".join(cell("th", n, escape(h), ' scope="col"') for n, h in enumerate(headings))
    rows = "".join(
        f"<tr>{''.join(cell('td', n, content, labels[n]) for n, content in enumerate(row))}</tr>"
        for row in body
    )
    # What scrolls must be within reach of the keyboard.
    return (
        f'<div class="scroll{" stack" if stack else ""}" tabindex="0" role="region" '
        f'aria-label="table"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _flat(content: Any, name: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        return {name: content}
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value, f"{name}.{key}".lstrip("."))
    return flat


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
