"""The pairs that a run found, as a table on the screen and as CSV."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from ttm_jax.engine.result import TTMResult
from ttm_jax.plain_text import one_line, rich_text
from ttm_jax.report.terminal import screen

_ALL = 40  # images: up to this many are all shown, of more only the least certain
_LEAST = 10
_NAME = 32  # characters of a mark and a file name that no terminal breaks
_WIDE = 200  # columns in a file or a pipe: one line per image


def answer_rows(results: Sequence[TTMResult], folder: Path) -> list[dict[str, Any]]:
    """One row per image, of the first seed; `agree` counts the seeds that say the same."""
    rows, *others = [result.table(folder) for result in results]
    if others:
        for index, row in enumerate(rows):
            row["agree"] = 1 + sum(table[index]["caption"] == row["caption"] for table in others)
            row["seeds"] = len(results)
    return rows


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Every row with every key; empty where there is nothing."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        numbers = {
            key: f"{row[key]:.6g}" for key in ("confidence", "margin") if row[key] is not None
        }
        writer.writerow({**row, **numbers})
    return text.getvalue()


def print_answer(rows: Sequence[dict[str, Any]], *, grouped: bool = True) -> None:
    """All pairs if they fit on a screen, otherwise the least certain."""
    certain = sorted(rows, key=lambda row: (row["unique"], row["confidence"] or 0.0))
    shown = rows if len(rows) <= _ALL else certain[:_LEAST]
    if len(rows) > _ALL:
        print(f"the {len(shown)} least certain of {len(rows)} images; all are in matchings.csv")
    console = screen(_WIDE)
    console.print(_pairs_table(shown, console.width))
    mark = "* changed by Test-Time Matching; " if any(row["changed"] for row in shown) else ""
    others = "the captions of the group" if grouped else "all captions"
    print(f"{mark}conf.: share among {others}")
    if len(rows) <= _ALL:
        least = ", ".join(one_line(row["image"]) for row in certain[:3])
        print(f"least certain: {least}")


def _pairs_table(rows: Sequence[dict[str, Any]], room: int) -> Table:
    """One row per image. Captions may break; names of files stay whole as long as there is room."""
    agree = "agree" in rows[0]
    names = [rich_text(("* " if row["changed"] else "  ") + row["image"]) for row in rows]
    longest = max(name.cell_len for name in names)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("image", overflow="fold", width=min(longest, max(_NAME, room // 3)))
    for heading in ("caption", "conf.", *(["seeds"] if agree else []), "runner-up"):
        right = heading in ("conf.", "seeds")
        table.add_column(
            heading, justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    for row, name in zip(rows, names, strict=True):
        share = row["confidence"]
        table.add_row(
            name,
            rich_text(row["caption"] or "-"),
            "-" if share is None else f"{100 * share:.0f} %",
            *([f"{row['agree']}/{row['seeds']}"] if agree else []),
            rich_text(row["runner_up"] or "-"),
        )
    return table
