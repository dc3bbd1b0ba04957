"""The paper's tables from run folders, with the paper's numbers: Markdown, CSV, LaTeX.

The ± of these tables divides by n, because the paper's ± beside it does
(`matching.mean_over_seeds`).
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from ttm_jax.data.paper import PaperResult
from ttm_jax.errors import InputError
from ttm_jax.files import write_text
from ttm_jax.matching.mean_over_seeds import population_std
from ttm_jax.matching.rate_interval import error_reduction, relative_gain
from ttm_jax.plain_text import one_line
from ttm_jax.report.run_data import Experiment
from ttm_jax.report.tables.paper_numbers import paper_result, pretty, units
from ttm_jax.report.tables.result_row import ResultRow


@dataclass(frozen=True)
class SummaryRow:
    """An experiment over its seeds (`result`), and the paper's row for it, if there is one.

    `result.ttm_std` divides by n.
    """

    experiment: str
    result: ResultRow
    paper: PaperResult | None
    finished: bool
    label: str = ""
    """What distinguishes it from others on the same data and model: "oracle", "constant"."""
    ablation: bool = False
    """Not run as the paper runs it."""

    @property
    def relative_gain(self) -> float:
        return relative_gain(self.result.simple_match, self.result.ttm_mean)

    @property
    def error_reduction(self) -> float:
        return error_reduction(self.result.simple_match, self.result.ttm_mean)

    def difference(self, name: str) -> float | None:
        """Here minus paper, of "raw", "simple_match" or "ttm"; None where either has no number."""
        here = {
            "raw": self.result.raw,
            "simple_match": self.result.simple_match,
            "ttm": self.result.ttm_mean,
        }[name]
        theirs = None if self.paper is None else getattr(self.paper, name)
        return None if here is None or theirs is None else here - theirs


def summary_row(experiment: Experiment, models: Mapping[str, str]) -> SummaryRow | None:
    """None if the truth is unknown. An unfinished run counts with its latest iteration."""
    if not experiment.has_truth:
        return None
    first = experiment.first
    before = first.rows[0]["metrics"]
    final = [run.rows[-1]["metrics"][first.main_metric]["percent"] for run in experiment.runs]
    score = before.get("group_score")
    result = ResultRow(
        variant=experiment.dataset,
        shape=experiment.shape,
        model=experiment.model,
        matching=first.config["matching"],
        units=units(experiment),
        chance_raw=None if score is None else score["chance"],
        chance=before[first.main_metric]["chance"],
        raw=None if score is None else score["percent"],
        simple_match=before[first.main_metric]["percent"],
        ttm_mean=fmean(final),
        ttm_std=population_std(final),
        ttm_values=tuple(final),
        seeds=experiment.seeds,
    )
    finished = all(run.finished for run in experiment.runs)
    paper = paper_result(experiment, models)
    label = _label(experiment)
    return SummaryRow(experiment.name, result, paper, finished, label, bool(label))


def summary_rows(experiments: Sequence[Experiment], models: Mapping[str, str]) -> list[SummaryRow]:
    """In the order given, but rows of one dataset together, as in the paper's tables."""
    rows = [summary_row(experiment, models) for experiment in experiments]
    known = [row for row in rows if row is not None]
    datasets = list(dict.fromkeys(_dataset(row) for row in known))
    known.sort(key=lambda row: datasets.index(_dataset(row)))
    lines = [cells(row)[:2] for row in known]
    return [
        replace(row, label=row.experiment) if lines.count(line) > 1 else row
        for row, line in zip(known, lines, strict=True)
    ]


def _label(experiment: Experiment) -> str:
    """How the run differs from the paper's way of running."""
    config = experiment.config
    parts = ["oracle"] if config["oracle"] else []
    parts += [config["schedule"]] if config["schedule"] in ("constant", "ascending") else []
    parts += [f"train {config['train']}"] if config["train"] != "all" else []
    return ", ".join(parts)


def _dataset(row: SummaryRow) -> str:
    kind = " (global)" if row.result.matching == "global" else ""
    return pretty(row.result.variant) + kind


CAPTION = "Percent. TTM: mean ± standard deviation over the seeds, divided by n as in the paper."
HEADINGS = ("Dataset", "Model", "Raw", "SimpleMatch", "TTM", "Δ", "Error red.")
_PAPER_HEADINGS = ("paper: raw", "SimpleMatch", "TTM", "difference of TTM")


def cells(row: SummaryRow) -> tuple[str, ...]:
    """The paper's columns."""
    r = row.result
    return (
        _dataset(row),
        pretty(r.model) + (f", {row.label}" if row.label else ""),
        number(r.raw),
        number(r.simple_match),
        mean_and_std(r.ttm_mean, r.ttm_std),
        gain(row),
        reduction(row),
    )


def paper_cells(row: SummaryRow) -> tuple[str, ...]:
    p = row.paper
    if p is None:
        return ("-",) * len(_PAPER_HEADINGS)
    return (
        number(p.raw),
        number(p.simple_match),
        "-" if p.ttm is None else mean_and_std(p.ttm, p.ttm_std),
        signed(row.difference("ttm")),
    )


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def mean_and_std(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


def gain(row: SummaryRow) -> str:
    """+8.0 (+9.8 %): points, and relative to SimpleMatch."""
    relative = row.relative_gain
    tail = f" ({relative:+.1f} %)" if math.isfinite(relative) else ""
    return f"{row.result.gain:+.1f}{tail}"


def reduction(row: SummaryRow) -> str:
    return f"{row.error_reduction:.1f} %" if math.isfinite(row.error_reduction) else "-"


def markdown(rows: Sequence[SummaryRow]) -> str:
    with_paper = any(row.paper for row in rows)
    headings = HEADINGS + (_PAPER_HEADINGS if with_paper else ())
    lines = [f"| {' | '.join(headings)} |", f"|---|---|{'---:|' * (len(headings) - 2)}"]
    for row in rows:
        content = cells(row) + (paper_cells(row) if with_paper else ())
        lines.append(f"| {' | '.join(map(_markdown_cell, content))} |")
    return "\n".join([*lines, "", CAPTION]) + "\n"


def _markdown_cell(text: str) -> str:
    """Names come from files: neither a table nor HTML may begin or end inside one."""
    return one_line(text).translate({ord(letter): f"&#{ord(letter)};" for letter in "|<>&"})


def csv_text(rows: Sequence[SummaryRow]) -> str:
    """Every number with all its digits, for other programs."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        ("experiment", "dataset", "model", "matching", "shape", "units", "seeds", "chance_raw",
         "chance", "raw", "simple_match", "ttm_mean", "ttm_population_std", "ttm_values", "gain",
         "relative_gain", "error_reduction", "paper_raw", "paper_simple_match", "paper_ttm",
         "paper_ttm_std", "ttm_difference")
    )  # fmt: skip
    for row in rows:
        r, p = row.result, row.paper
        writer.writerow(
            (row.experiment, r.variant, r.model, r.matching, r.shape, r.units,
             " ".join(map(str, r.seeds)), r.chance_raw, r.chance, r.raw, r.simple_match,
             r.ttm_mean, r.ttm_std, " ".join(map(str, r.ttm_values)), r.gain, row.relative_gain,
             row.error_reduction, *((None,) * 4 if p is None else
             (p.raw, p.simple_match, p.ttm, p.ttm_std)), row.difference("ttm"))
        )  # fmt: skip
    return buffer.getvalue()


def latex(rows: Sequence[SummaryRow]) -> str:
    """A booktabs table in the paper's layout: one block per dataset, one line per model."""
    with_paper = any(row.paper for row in rows)
    columns = 8 if with_paper else 6
    lines = [
        "% \\usepackage{booktabs}",
        f"% {CAPTION}".replace("±", "and"),
        f"\\begin{{tabular}}{{l{' c' * (columns - 1)}}}",
        "\\toprule",
        "Dataset / Model & Raw & SimpleMatch & TTM & $\\Delta$ & Error Red."
        + (" & Paper & Difference" if with_paper else "")
        + " \\\\",
    ]
    dataset = None
    for row in rows:
        first, model, *content = cells(row)
        if first != dataset:
            lines += [
                "\\midrule",
                f"\\multicolumn{{{columns}}}{{l}}{{\\textbf{{{_tex(first)}}}}} \\\\",
            ]
            dataset = first
        if with_paper:
            content += paper_cells(row)[2:]
        lines.append(f"\\quad {_tex(model)} & {' & '.join(map(_tex, content))} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "Δ": r"$\Delta$",
}  # fmt: skip


def _tex(text: str) -> str:
    if text == "-":
        return "--"
    return "".join(_TEX.get(letter, letter) for letter in one_line(text))


WRITERS: dict[str, Callable[[Sequence[SummaryRow]], str]] = {
    "results.md": markdown,
    "results.csv": csv_text,
    "results.tex": latex,
}


def write_tables(rows: Sequence[SummaryRow], folder: Path) -> list[Path]:
    """results.md, results.csv and results.tex."""
    if not rows:
        raise InputError("no table: none of the runs knows the truth of its data")
    written = []
    for name, make in WRITERS.items():
        write_text(folder / name, make(rows))
        written.append(folder / name)
    return written
