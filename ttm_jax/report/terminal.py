"""Where tables are printed: a terminal, or a file or pipe, which has no edge to break words at."""

from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

WIDE = 132  # columns of a table in a file or a pipe


def screen(wide: int = WIDE) -> Console:
    """As wide as the terminal; without one as wide as `wide`, or as COLUMNS if that is more."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, wide))


def print_fitting(console: Console, wide: Table, narrow: Callable[[], Table]) -> None:
    """The wide form of a table, or where that would have to be cut, the narrow one."""
    unlimited = console.options.update(max_width=10_000)
    needed = Measurement.get(console, unlimited, wide).maximum
    console.print(wide if needed <= console.width else narrow())


def narrow_table(title: str, headings: Sequence[str], texts: int = 1) -> Table:
    """Without vertical lines: only the first `texts` columns may break, numbers stay whole."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for index, heading in enumerate(headings):
        if index < texts:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    return table
