"""A comparison of two runs on the screen; names and captions are text, whatever they hold."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ttm_jax.matching.metric_names import METRICS
from ttm_jax.plain_text import one_line, rich_text
from ttm_jax.report.compare import PairedTest, RunComparison
from ttm_jax.report.terminal import screen


def print_comparisons(a: str, b: str, comparisons: Sequence[RunComparison], show: int) -> None:
    console = screen()
    console.print(Text(f"A: {one_line(a)}\nB: {one_line(b)}"))
    tests = [(c, test) for c in comparisons for test in c.tests]
    if tests:
        console.print(_test_table(tests))
        console.print(
            "p: McNemar's exact test, two-sided, on the units that only one gets right. "
            "Pairs of one global assignment are not independent.",
            highlight=False,
        )
    for comparison in comparisons:
        console.print(
            f"\nseeds {comparison.seeds[0]} and {comparison.seeds[1]}: another matching on "
            f"{comparison.changed} of {comparison.units} units",
            highlight=False,
        )
        if comparison.differences:
            console.print(_difference_table(comparison, show))
    for note in dict.fromkeys(note for c in comparisons for note in c.notes):
        console.print(Text(f"note: {one_line(note)}"))


def _test_table(tests: Sequence[tuple[RunComparison, PairedTest]]) -> Table:
    table = Table()
    headings = ("metric", "seeds", "iter.", "A", "B", "B - A", "only A", "only B", "p")
    for heading in headings:
        left = heading == "metric"
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    for comparison, test in tests:
        table.add_row(
            METRICS[test.metric].label,
            "{} / {}".format(*comparison.seeds),
            "{} / {}".format(*comparison.iterations),
            f"{100 * test.a / test.units:.2f}",
            f"{100 * test.b / test.units:.2f}",
            f"{100 * (test.b - test.a) / test.units:+.2f}",
            str(test.only_a),
            str(test.only_b),
            f"{test.p:.3g}",
        )
    return table


def _difference_table(comparison: RunComparison, show: int) -> Table:
    found = comparison.differences
    listed = found if not show else found[:show]
    table = Table(title=f"right in one only: {len(listed)} of {len(found)}", title_justify="left")
    for heading in ("unit", "right in", "margin A", "margin B", "captions"):
        table.add_column(heading, overflow="fold")
    for row in listed:
        table.add_row(
            rich_text(row.name),
            row.right_in,
            f"{row.margin_a:.4g}",
            f"{row.margin_b:.4g}",
            Text("\n".join(map(one_line, row.captions))),
        )
    return table
