"""Any models on any data, one row each: metrics with chance, and what a diagnosis says."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.diagnosis import Diagnosis, diagnose_and_evaluate, why_no_diagnosis
from ttm_jax.engine.evaluation import evaluate
from ttm_jax.engine.model import Model
from ttm_jax.engine.raw_scores import raw_scores
from ttm_jax.engine.recommended_settings import own_data_config
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.plain_text import rich_text
from ttm_jax.report.diagnosis import fields
from ttm_jax.scorers.contrastive.model import ContrastiveModel

SHOWN = ("text_score", "image_score", "group_score", "group_match", "global_match")
_TABLE = 130  # columns in a pipe


@dataclass(frozen=True)
class Row:
    """A model on a dataset, in JSON types."""

    data: str
    model: str
    groups: int
    shapes: tuple[str, ...]
    metrics: dict[str, dict[str, Any]]
    """Percent, count, of and chance by metric; empty without known truth."""
    diagnosis: dict[str, Any] | None = None
    """As `ttm diagnose --json` prints it."""
    note: str = ""
    """Why there is no diagnosis, or no row at all."""

    @property
    def is_missing(self) -> bool:
        """Whether nothing was scored."""
        return not self.groups

    @property
    def verdict(self) -> str:
        """In two or three words."""
        if self.diagnosis is None:
            return "missing" if self.is_missing else "-"
        other = self.diagnosis["with_prior_removed"]
        if self.diagnosis["go_ahead"]:
            return "go ahead"
        return "go ahead, prior subtract" if other and other["go_ahead"] else "no evidence"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "shapes": list(self.shapes)}


def from_json(fields: dict[str, Any]) -> Row:
    """The other way."""
    return Row(**{**fields, "shapes": tuple(fields["shapes"])})


def missing(data: str, model: str, why: str) -> Row:
    """What stands for a cell that cannot be scored."""
    return Row(data, model, 0, (), {}, note=why)


def measure(model: Model, dataset: GroupedDataset, data: str, name: str, *, grouped: bool) -> Row:
    """Score a model on a dataset once.

    Without groups (`grouped` False, or groups of one image and one caption), all images are matched
    to all captions, and there is no diagnosis.
    """
    shapes = [block.shape for block in dataset.blocks]
    diagnosis: Diagnosis | None = None
    note: str | None = None
    if not grouped or all(shape == (1, 1) for shape in shapes):
        whole = dataset.ungrouped()
        config = TTMConfig(matching="global", tau_unit="fraction")
        metrics = evaluate(raw_scores(model, whole, "global", config), whole, "global")
        note = why_no_diagnosis(whole, config)
    else:
        generative = not isinstance(model, ContrastiveModel)
        config = own_data_config(shapes, "group", generative=generative)
        note = why_no_diagnosis(dataset, config)
        if note is None:
            diagnosis, metrics = diagnose_and_evaluate(model, dataset, config)
        else:
            metrics = evaluate(raw_scores(model, dataset, "group", config), dataset, "group")
    return Row(
        data=data,
        model=name,
        groups=len(dataset),
        shapes=tuple(f"{images}x{texts}" for images, texts in shapes),
        metrics=metrics,
        diagnosis=None if diagnosis is None else fields(diagnosis),
        note=note or "",
    )


def headings(rows: Sequence[Row]) -> tuple[str, ...]:
    """Only metrics that some row has."""
    return ("data", "groups", "model", *(METRICS[n].label for n in _metrics(rows)), "verdict")


def cells(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    """What the table says of a row, in the columns for all rows."""
    shapes = "/".join(row.shapes)
    size = "-" if row.is_missing else f"{row.groups} {shapes}"
    return (row.data, size, row.model, *(_rate(row, n) for n in _metrics(rows)), row.verdict)


def markdown(rows: Sequence[Row]) -> str:
    """The table, and below it a sentence on each row."""
    names = headings(rows)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in cells(r, rows))} |" for r in rows]
    lines += ["", "Percent, chance in brackets.", ""]
    lines += [f"- {sentence}" for sentence in sentences(rows)]
    return "\n".join(lines).rstrip() + "\n"


def sentences(rows: Iterable[Row]) -> list[str]:
    """What each diagnosis says, or why there is none."""
    said = []
    for row in rows:
        text = row.note if row.diagnosis is None else row.diagnosis["sentence"]
        said += [f"{row.data}, {row.model}: {text}"] if text else []
    return said


def as_csv(rows: Sequence[Row]) -> str:
    """Every number of every metric in a column of its own."""
    measured = [name for name in METRICS if any(name in row.metrics for row in rows)]
    parts = ("percent", "count", "of", "chance")
    diagnosed = ("go_ahead", "p_value", "tau_1", "selected")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = [f"{name}_{part}" for name in measured for part in parts]
    writer.writerow(["data", "model", "groups", "shapes", *columns, "verdict", *diagnosed, "note"])
    for row in rows:
        numbers = [row.metrics.get(name, {}).get(part, "") for name in measured for part in parts]
        found = [(row.diagnosis or {}).get(name, "") for name in diagnosed]
        first = [row.data, row.model, row.groups, " ".join(row.shapes)]
        writer.writerow([*first, *numbers, row.verdict, *found, row.note])
    return file.getvalue()


def print_rows(rows: Sequence[Row], title: str) -> None:
    """On the terminal; in 80 columns the data and the model share one."""
    from rich.table import Table

    from ttm_jax.report.terminal import narrow_table, print_fitting, screen

    table = Table(title=title, caption="percent, chance in brackets")
    for index, heading in enumerate(headings(rows)):
        table.add_column(heading, justify="left" if index < 3 else "right")
    for row in rows:
        table.add_row(*map(rich_text, cells(row, rows)))

    def narrow() -> Table:
        _, _, _, *rest = headings(rows)
        small = narrow_table(title, ("data, model", *rest))
        for row in rows:
            data, size, model, *numbers = cells(row, rows)
            small.add_row(
                rich_text(f"{data}, {size}, {model}"),
                *(
                    rich_text(number.replace(" (", "\n(").replace(", ", ",\n"))
                    for number in numbers
                ),
            )
        return small

    print_fitting(screen(_TABLE), table, narrow)


def _metrics(rows: Sequence[Row]) -> list[str]:
    return [name for name in SHOWN if any(name in row.metrics for row in rows)]


def _rate(row: Row, name: str) -> str:
    rate = row.metrics.get(name)
    return "-" if rate is None else f"{rate['percent']:.2f} ({rate['chance']:.1f})"
