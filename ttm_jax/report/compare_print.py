"""A comparison of two runs on the screen."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ttm_jax.report.charts import TITLES
from ttm_jax.report.compare import PairedTest, RunComparison


def print_comparisons(a: str, b: str, comparisons: Sequence[RunComparison], show: int) -> None:
    console = Console()
    console.print(f"A: {escape(a)}\nB: {escape(b)}", highlight=False)
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


def _test_table(tests: Sequence[tuple[RunComparison, PairedTest]]) -> Table:
    table = Table()
    headings = ("metric", "seeds", "iter.", "A", "B", "B - A", "only A", "only B", "p")
    for heading in headings:
        left = heading == "metric"
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    for comparison, test in tests:
        table.add_row(
            TITLES[test.metric],
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
        texts = "\n".join(escape(text) for text in row.captions)
        table.add_row(
            escape(row.name), row.right_in, f"{row.margin_a:.4g}", f"{row.margin_b:.4g}", texts
        )
    return table
