"""Checkpoints on the screen: trees, differences with bars, stored scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from ttm_jax.files import write_atomic
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.plain_text import one_line, rich_text
from ttm_jax.report.checkpoints.diff import Change, Drift
from ttm_jax.report.checkpoints.tree import Leaf, nodes
from ttm_jax.report.terminal import screen

_BAR = 40


def print_tree(path: Path, kind: str, leaves: Sequence[Leaf], depth: int) -> None:
    title = Text(f"{one_line(str(path))} ({kind})", "table.title")
    table = Table(title=title, title_justify="left")
    table.add_column("name", overflow="fold")
    dtypes = sorted({leaf.dtype for leaf in leaves})
    # One dtype is said once, below: names of a real model need the space.
    headings = ("shape", *(("dtype",) if len(dtypes) > 1 else ()), "parameters", "size", "norm")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=heading != "dtype")
    for node in nodes(leaves, depth):
        leaf = node.leaf
        name = Text("  " * node.depth)
        name.append(one_line(node.name), "bold" if leaf is None else None)
        if leaf is None and not node.shown:
            name.append(f" ({len(node.leaves)} arrays)", "dim")
        shape = "" if leaf is None else " x ".join(map(str, leaf.shape)) or "scalar"
        bad = sum(leaf.not_finite for leaf in node.leaves)
        norm = f"{node.norm:.4g}" + (f" [red]({bad} not finite)[/red]" if bad else "")
        kind_of_number = (node.dtypes,) if len(dtypes) > 1 else ()
        cells = (shape, *kind_of_number, f"{node.count:,}", size_text(node.bytes), norm)
        table.add_row(name, *cells)
    total, size = sum(leaf.count for leaf in leaves), sum(leaf.bytes for leaf in leaves)
    console = screen()
    console.print(table)
    said = f"{len(leaves)} arrays, {total:,} parameters, {size_text(size)}, {', '.join(dtypes)}"
    console.print(one_line(said), highlight=False, markup=False)


def print_diff(changes: Sequence[Change], drifts: Sequence[Drift], top: int) -> None:
    shown = changes if not top else changes[:top]
    table = Table(title=f"relative change, the largest {len(shown)} of {len(changes)}")
    table.add_column("parameter", overflow="fold")
    for heading in ("change", "norm before", "norm of the change"):
        table.add_column(heading, justify="right")
    for change in shown:
        table.add_row(
            rich_text(change.name),
            f"{change.relative:.3e}",
            f"{change.before:.4g}",
            f"{change.moved:.4g}",
        )
    console = screen()
    console.print(table)
    largest = max((drift.relative for drift in drifts), default=0.0)
    for tower in dict.fromkeys(drift.tower for drift in drifts):
        console.print(Text(f"\ndrift by depth: {one_line(tower)}", "bold"))
        for drift in drifts:
            if drift.tower == tower:
                bar = "█" * round(_BAR * drift.relative / largest) if largest else ""
                console.print(
                    f"{layer_text(drift):>8}  {drift.relative:.3e}  {bar}", highlight=False
                )


def draw_drift(drifts: Sequence[Drift], path: Path) -> None:
    """The same bars as a picture: one panel per tower."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    towers = list(dict.fromkeys(drift.tower for drift in drifts))
    figure = Figure(figsize=(5 * len(towers), 3.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(towers), squeeze=False, sharey=True)[0]
    for panel, tower in zip(panels, towers, strict=True):
        rows = [drift for drift in drifts if drift.tower == tower]
        panel.bar(
            [layer_text(row) for row in rows], [row.relative for row in rows], color="#0072B2"
        )
        panel.set_title(tower)
        panel.set_xlabel("layer")
        panel.tick_params("x", labelrotation=90 if len(rows) > 14 else 0)
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("relative change")
    kind = path.suffix.removeprefix(".") or "png"
    write_atomic(path, lambda file: figure.savefig(file, format=kind))


def print_scores(rows: Sequence[dict[str, Any]]) -> None:
    metrics = list(dict.fromkeys(name for row in rows for name in row.get("metrics") or {}))
    table = Table(title="scores stored with each step, percent")
    for heading in ("step", "tau", *(METRICS[name].label for name in metrics)):
        table.add_column(heading, justify="right")
    for row in rows:
        tau, found = row.get("tau"), row.get("metrics") or {}
        cells = (f"{found[name]['percent']:.2f}" if name in found else "-" for name in metrics)
        table.add_row(str(row["step"]), "-" if tau is None else f"{tau:.4g}", *cells)
    screen().print(table)


def layer_text(drift: Drift) -> str:
    return "others" if drift.layer is None else str(drift.layer)


def size_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1000
    raise AssertionError
